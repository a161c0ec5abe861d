"""The emulator, in an environment of its own and on one loopback port."""

from __future__ import annotations

import http.client
import os
import socket
import time
from typing import TYPE_CHECKING, Self

from local.stack import ROOT
from tests.emulator.children import LOOPBACK_ALONE, Child, ChildError
from tests.emulator.cloud import Cloud

if TYPE_CHECKING:
    from pathlib import Path

    from local.keeper import Keeper

BINARY = ROOT / ".venv-emulator/bin/ministack"
_START_SECONDS = 60


class Emulator:
    """ministack from `__enter__` to `__exit__`, its functions being its children.

    Its files lie in folder, what it says in logs.
    """

    def __init__(self, keeper: Keeper, folder: Path, logs: Path) -> None:
        self._keeper = keeper
        self._folder = folder
        self.log = logs / "emulator.log"

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        own = self._folder / "emulator"
        own.mkdir()
        self._child = Child(
            self._keeper,
            [str(BINARY)],
            # Nothing of the caller's: no login of a real account, no proxy, no Docker.
            environment={
                **LOOPBACK_ALONE,
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(own),
                "TMPDIR": str(own),
                "STATE_DIR": str(own / "state"),
                "S3_DATA_DIR": str(own / "s3"),
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(self.port),
                "MINISTACK_HOST": "127.0.0.1",
                "DOCKER_HOST": "unix://" + str(own / "no-docker"),
                "LAMBDA_EXECUTOR": "local",
            },
            folder=own,
            log=self.log,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self._child.end()
            raise
        self.cloud = Cloud(self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    @property
    def pid(self) -> int:
        """The emulator's number."""
        return self._child.pid

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._child.has_ended or time.monotonic() > deadline:
                raise ChildError(f"the emulator did not start: {self._child.tail()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/_ministack/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
