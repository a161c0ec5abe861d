"""Seconds of processor time, as the kernel counts them in hundredths."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def seconds(pid: int) -> float:
    """What the process spent, all its threads together, and those of its children that ended."""
    return _spent(_stat(pid))


def seconds_of_family(pid: int) -> float:
    """What the process and its children spent, those that ended included."""
    while True:
        own = _spent(_stat(pid))
        total = own + sum(_spent(fields) for fields in _others() if int(fields[1]) == pid)
        # A child that ended meanwhile has passed on to its parent what it spent: look again.
        if _spent(_stat(pid)) == own:
            return total


def _others() -> Iterator[list[str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield _stat(int(entry.name))


def peak_megabytes(pid: int) -> float:
    """The most memory that the process ever had in use, in MB of 2^20 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may hold spaces; the first is the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def _spent(fields: list[str]) -> float:
    """utime, stime, cutime, cstime."""
    return sum(map(int, fields[11:15])) * _TICK
