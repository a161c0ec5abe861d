"""Postlease: the delivery as it is deployed, filled by the producers' function."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.peers.queue import Worker

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.peers.queue import Work

BATCH = 1_000

EMPTY: LiteralString = (
    "TRUNCATE postlease.email_messages, postlease.email_attachments, postlease.provider_gates"
)

FILL: LiteralString = """
SELECT count(*) FROM postlease.enqueue_emails((
    SELECT jsonb_agg(jsonb_build_object(
        'template', 'receipt',
        'to_addresses', jsonb_build_array('reader' || n || '@example.com'),
        'parameters', jsonb_build_object('order_number', 'A-' || n, 'total', '12.00')))
    FROM generate_series(%(first)s::integer, %(last)s::integer) AS n))
"""

LEFT: LiteralString = (
    "SELECT count(*) FROM postlease.email_messages WHERE status IS DISTINCT FROM 'sent'"
)


class Own:
    """The product's queue. case is what its worker does, see `workers.deliver`."""

    name = "Postlease"
    is_slow = False
    remaining = LEFT

    def __init__(self, *, case: str = "bytes", slots: int = 100, **worker: Any) -> None:
        self._case = case
        self._slots = slots
        self._worker = worker
        self.settings = f"{slots} slots"

    def version(self) -> str:
        """The commit of this folder, and whether it was changed since."""
        told = (_git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "-uno"))
        if not told[0]:
            return "no commit"
        return f"commit {told[0]}" + (", changed" if told[1] else "")

    def fill(self, cluster: Cluster, work: Work) -> str:
        """Empty the table and ask for the messages, a thousand at a time."""
        url = cluster.postlease("postlease").owner
        fill(url, work.messages)
        return url

    def worker(self, cluster: Cluster, work: Work) -> Worker:
        """The product's delivery in a process."""
        asked = {
            "url": cluster.postlease("postlease").application,
            "case": self._case,
            "seconds": work.seconds,
            "slots": self._slots,
            **self._worker,
        }
        return Worker(
            [sys.executable, "-m", "bench.workers.deliver", json.dumps(asked)],
            ROOT,
            {"PYTHONPATH": PYTHONPATH},
        )


def _git(*arguments: str) -> str:
    """What git says of this folder; empty if there is no git, or nothing to say."""
    try:
        asked = subprocess.run(
            ["git", *arguments],  # noqa: S607
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return asked.stdout.strip()


def fill(url: str, messages: int, *, empty: bool = True) -> None:
    """Empty the tables, unless that is not wanted, then ask for so many receipts."""
    with psycopg.connect(url, autocommit=True) as connection:
        if empty:
            connection.execute(EMPTY)
        for first in range(0, messages, BATCH):
            last = min(first + BATCH, messages) - 1
            connection.execute(FILL, {"first": first, "last": last})
