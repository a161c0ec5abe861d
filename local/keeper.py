"""Ends processes and removes folders once their owner is gone, kill -9 included.

A keeper is a child that reads what it owes from its standard input. End of file means that the
owner has ended in whatever way, and the keeper then pays its debts, newest first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_PATIENCE_SECONDS = 3


class Keeper:
    """The owner's side: what is promised here happens when the owner closes it, ends or dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )

    def end_child(self, pid: int, *, with_signal: int = signal.SIGKILL) -> None:
        """Send with_signal to pid, and SIGKILL after three seconds."""
        self._owe({"kind": "end", "pid": pid, "signal": int(with_signal)})

    def forget_child(self, pid: int) -> None:
        """pid has ended; its number may soon be somebody else's."""
        self._owe({"kind": "forget", "pid": pid})

    def remove_folder(self, folder: Path) -> None:
        """Remove folder with all that is in it."""
        self._owe({"kind": "remove", "folder": str(folder)})

    def drop_database(self, url: str, name: str) -> None:
        """Drop database name on the server behind url, connected sessions or not."""
        self._owe({"kind": "drop", "url": url, "name": name})

    def close(self) -> None:
        """Pay every debt and wait for it."""
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()
        self._child.wait()

    def _owe(self, debt: dict[str, object]) -> None:
        if self._child.stdin is None:
            return
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._child.stdin.write(json.dumps(debt).encode() + b"\n")
            self._child.stdin.flush()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    with contextlib.suppress(OSError, IndexError):
        # A zombie has ended; whoever adopted it may never collect it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def _end(pid: int, first_signal: int) -> None:
    for number in (first_signal, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if not _is_running(pid):
                return
            time.sleep(0.01)


def _drop(url: str, name: str) -> None:
    import psycopg  # noqa: PLC0415  the other debts must be payable without it
    from psycopg import sql  # noqa: PLC0415

    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True, connect_timeout=3) as connection:
        connection.execute(statement)


def _pay(debt: dict[str, str]) -> None:
    match debt["kind"]:
        case "end":
            _end(int(debt["pid"]), int(debt["signal"]))
        case "remove":
            shutil.rmtree(debt["folder"], ignore_errors=True)
        case "drop":
            _drop(debt["url"], debt["name"])


def main() -> None:
    """Collect debts until end of file, then pay them."""
    # Ctrl-C and SIGTERM are meant for the owner; the keeper outlives it by duty.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    debts: list[dict[str, str]] = []
    for line in sys.stdin:
        debt = json.loads(line)
        if debt["kind"] == "forget":
            debts = [known for known in debts if known.get("pid") != debt["pid"]]
        else:
            debts.append(debt)
    for debt in reversed(debts):
        # One unpaid debt (a server already gone) must not keep the others from being paid.
        with contextlib.suppress(Exception):
            _pay(debt)


if __name__ == "__main__":
    main()
