"""Programs that the run starts: each in a group of its own, ended by number whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.keeper import Keeper

_PATIENCE_SECONDS = 10
_TAIL_LINES = 40

LOOPBACK_ALONE = {
    name: value
    for names, value in (
        (("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
        (("NO_PROXY",), "127.0.0.1,localhost"),
    )
    for upper in names
    for name in (upper, upper.lower())
}
"""Variables that lead whatever is meant for elsewhere to a port where nobody listens."""


class ChildError(Exception):
    """A program failed; the text holds the end of what it said."""


def members(group: int) -> list[int]:
    """The running programs of a group; what has ended and nobody collects is none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, parent, group.
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


class Child:
    """One program and all that it starts; what it says goes to a file.

    The keeper ends the group if we are killed.
    """

    def __init__(
        self,
        keeper: Keeper,
        command: list[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        self._keeper = keeper
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # A negative number is the group's: the program and whatever it started.
        keeper.end_child(-self.pid, with_signal=signal.SIGTERM)

    @property
    def pid(self) -> int:
        """The program's number, which is its group's as well."""
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended; others of its group may still run."""
        return self._popen.poll() is not None

    def wait(self, seconds: float) -> int:
        """The exit status; the group is ended when that takes longer, and on any interruption."""
        try:
            return self._popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ChildError(f"not done after {seconds:.0f} s: {self.tail()}") from None
        finally:
            self.end()

    def end(self) -> None:
        """End the whole group, the last of it by force."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _PATIENCE_SECONDS
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            while members(self.pid) and time.monotonic() < deadline:
                time.sleep(0.05)
        self._popen.wait()
        self._keeper.forget_child(-self.pid)

    def tail(self) -> str:
        """The last lines of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
