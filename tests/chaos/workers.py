"""The functions' worker processes, seen from outside: whose a connection is, and signals to them.

Wants Linux: a connection's owner is found in /proc.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

    from local.functions import Function

_LOOK_SECONDS = 0.02


class Workers:
    """Watches the workers of functions from `__enter__` to `__exit__`."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._over = threading.Event()
        self._begun: dict[int, tuple[str, float]] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def owner_of(self, port: int, *, server: int) -> int | None:
        """The worker whose connection to the loopback port server has this port on its side."""
        inode = _inode(port, server)
        if inode is None:
            return None
        return next((pid for pid in self._pids() if _holds(pid, inode)), None)

    def function_of(self, pid: int) -> str | None:
        """The name of the function that pid serves; None if it is none of ours, or gone."""
        return next((name for name, f in self._functions.items() if pid in f.pids), None)

    def busy(self, name: str) -> list[int]:
        """The workers of a function that have an event right now."""
        return self._functions[name].busy_pids if name in self._functions else []

    def age(self, pid: int) -> float:
        """For how many seconds the worker has had its event; infinite without one."""
        _, since = self._begun.get(pid, ("", float("-inf")))
        return time.monotonic() - since

    def send(self, pid: int, number: signal.Signals) -> bool:
        """Signal one of our own workers; False if it is gone."""
        if self.function_of(pid) is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def _pids(self) -> list[int]:
        return [pid for function in self._functions.values() for pid in function.pids]

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            for function in self._functions.values():
                for worker in list(function._busy):
                    current = worker._current
                    known, _ = self._begun.get(worker.pid, ("", 0.0))
                    if current is not None and worker.ready.is_set() and current.id != known:
                        self._begun[worker.pid] = (current.id, time.monotonic())


def _inode(port: int, server: int) -> str | None:
    near, far = f":{port:04X}", f":{server:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(near) and fields[2].endswith(far):
            return fields[9]
    return None


def _holds(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    with suppress(OSError):
        return any(
            os.readlink(entry) == wanted  # noqa: PTH115  a socket's name is no path
            for entry in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False
