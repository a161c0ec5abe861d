"""However many attachments wait, a sweep needs the memory of those that it holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.delivery.test_attachments import weighing

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

PROGRAM = Path(__file__).with_name("sweep_within.py")
MEGABYTE = 1_000_000


def test_attachments_are_sent_within_a_memory_that_cannot_hold_them_all(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Callable[[str, bytes], str],
    environment: Callable[..., None],
    application_conninfo: str,
) -> None:
    """ATT-07: ten of them at once would need 200 MB, the two that are held need 40."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT=str(4 * MEGABYTE))
    weighing(owner, bucket, 1000)
    # Small stacks and one heap: what is counted is what is used.
    command = f'ulimit -s 1024 && exec "{sys.executable}" "$@"'
    with subprocess.Popen(
        ["sh", "-c", command, "sh", PROGRAM, application_conninfo, str(100 * MEGABYTE)],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path), "MALLOC_ARENA_MAX": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin
        assert child.stdout
        for line in child.stdout:
            if line == "warm\n":
                break
        weighing(owner, bucket, *[2 * MEGABYTE] * 10)
        child.stdin.write("\n")
        child.stdin.flush()
        told = [json.loads(line) for line in child.stdout]
    assert told[-1] == {"claimed": 10, "accepted": 10, "sent": 10}
    assert len(sweeps.inbox()) == 11
