"""The interpreter as a run wants it: many threads, of which one runs at a time."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OBJECTS = 50_000
"""New ones between two collections, more than are on their way at once: none of them is in a cycle,
and looking for one costs a tenth of the run."""

_TURN_SECONDS = 0.001
"""How long a thread may keep the interpreter from another: whoever gets the database's answer waits
for those that carry messages on, and at the usual 5 ms they soon all wait for it."""

_PROCESSOR_FIELD = 39
"""Of `/proc/<pid>/stat`, counted from one: the processor that it ran on last."""


class _Tuning:
    """How many runs are under way: the first one sets it, the last one sets it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._before = gc.get_threshold(), sys.getswitchinterval()
        self._is_first = True

    def begin(self) -> None:
        with self._lock:
            if self._is_first:
                self._is_first = False
                # Modules and templates stay. To look through them for cycles once a run, as its end
                # would bring about, takes longer than a hundred messages.
                gc.freeze()
            if not self._runs:
                self._before = gc.get_threshold(), sys.getswitchinterval()
                gc.set_threshold(_OBJECTS, *self._before[0][1:])
                sys.setswitchinterval(_TURN_SECONDS)
            self._runs += 1

    def end(self) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                threshold, interval = self._before
                gc.set_threshold(*threshold)
                sys.setswitchinterval(interval)


_tuning = _Tuning()


@contextlib.contextmanager
def tuned() -> Iterator[None]:
    """Set it for the block, and back after it; after the last one, where several overlap."""
    _tuning.begin()
    try:
        with _on_one_processor():
            yield
    finally:
        _tuning.end()


@contextlib.contextmanager
def _on_one_processor() -> Iterator[None]:
    """Keep the threads that start in the block, and the calling one, on one processor.

    The interpreter runs one of them at a time. On two processors what it holds in its caches moves
    with each turn, which costs a third of the run. Where a system has no such call, or refuses it,
    they run where they like.
    """
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {_processor()} & before or before)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def _processor() -> int:
    """The one that the calling thread ran on last."""
    behind_name = Path("/proc/thread-self/stat").read_text(encoding="ascii").rpartition(")")[2]
    return int(behind_name.split()[_PROCESSOR_FIELD - 3])
