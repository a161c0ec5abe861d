"""A lane: one connection, the thread that writes on it, and the lines it writes from.

A lone request is written at once; those that arrive while a commit is under way share the next one.
What fails is put back behind the others of its kind and comes again until its time is over.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from postlease.delivery.requests import BATCH, Line, Request, answered, brings_more
from postlease.errors import DatabaseError, PostleaseError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from postlease.database import Connection, Database
    from postlease.delivery.calls import Calls

_PAUSE_SECONDS = 0.05
_FEW = 64
_MOMENT_SECONDS = 0.003
_WHILE_SECONDS = 0.03
_STEP_SECONDS = 0.01
_AWAY_SECONDS = 0.25
"""How long a lane that nobody asks for anything waits before it tries to connect again."""

_BUSY = ("40", "55P03", "57014")
"""Deadlock and serialization, lock timeout, statement timeout."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Lane:
    """Writes what its lines are asked for, from `__enter__` to `__exit__`.

    What is asked of it is safe to repeat, and is repeated: on a broken connection until the
    request's time is over; a batch that fails is replayed row by row.
    """

    def __init__(
        self, name: str, database: Database, connected: Callable[[bool], None] | None = None
    ) -> None:
        """connected is told when the connection has come about, and when it is lost."""
        self._database = database
        self._connected = connected
        self._is_connected = False
        self.lock = threading.Lock()
        """Guards the lines, and the calls that one of them counts."""
        self._wake = threading.Condition(self.lock)
        self._waits = False
        self._closed = False
        self._lines: list[Line[Any, Any]] = []
        self._owed: list[Line[Any, Any]] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def line(
        self,
        write: Callable[[Connection, list[Item]], Callable[[UUID], Result]],
        *,
        longest: int = BATCH,
        calls: Calls | None = None,
    ) -> Line[Item, Result]:
        """One more line, which goes behind those before it. See `Line`."""
        line = Line(self.lock, self.rouse, write, longest=longest, calls=calls)
        self._lines.append(line)
        return line

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what waits, then end the thread."""
        with self.lock:
            self._closed = True
            self.rouse()
        self._thread.join()

    def rouse(self) -> None:
        """Wake the thread, if it waits; with the lock in hand."""
        if self._waits:
            self._waits = False
            self._wake.notify()

    def _run(self) -> None:
        self._get_ready()
        self._seek()
        while work := self._next():
            line, batch = work
            if batch[0].error is not None:
                answered(batch)
                continue
            self._write(line, batch)
            self._seek()
            if 1 < len(batch) < _FEW:
                self._wait_for_more(line, batch)

    def _get_ready(self) -> None:
        """Connect, and let the server read its catalogs, while the first messages are claimed.

        Whoever asks first is told what fails.
        """
        try:
            self._lines[-1].write(self._database.connection(), [])
            self._tell(is_connected=True)
        except Exception:  # noqa: BLE001 - it would end the thread
            self._database.discard()
            self._tell(is_connected=False)

    def _seek(self) -> None:
        """Where others wait to hear of a connection, try for one until somebody asks anything."""
        while self._connected and not self._is_connected:
            with self.lock:
                if self._closed or any(self._lines):
                    return
                self._sleep(_AWAY_SECONDS)
            self._get_ready()

    def _connection(self) -> Connection:
        connection = self._database.connection()
        self._tell(is_connected=True)
        return connection

    def _tell(self, *, is_connected: bool) -> None:
        if self._connected and is_connected != self._is_connected:
            self._connected(is_connected)
        self._is_connected = is_connected

    def _sleep(self, seconds: float | None) -> None:
        """Wait to be roused, at most so long; with the lock in hand."""
        self._waits = True
        self._wake.wait(seconds)
        self._waits = False

    def _wait_for_more(self, line: Line[Any, Any], batch: list[Request[Any, Any]]) -> None:
        """Where several came, but few, a moment brings more; while others set out, a while does.

        Nobody pays for that while but authorizations: what they are for has not left. What another
        line was asked ends it.
        """
        ends_at = time.monotonic() + (_WHILE_SECONDS if line.lets_call else 0)
        time.sleep(_MOMENT_SECONDS)
        while (
            len(line) < _FEW
            and time.monotonic() < ends_at
            and brings_more(batch)
            and not any(other for other in self._lines if other is not line)
        ):
            time.sleep(_STEP_SECONDS)

    def _next(self) -> tuple[Line[Any, Any], list[Request[Any, Any]]] | None:
        """Wait for a batch and take the most urgent line's; None when closed and nothing waits."""
        with self.lock:
            while True:
                for line in (*self._owed, *self._lines):
                    if batch := line.take():
                        self._owed = [other for other in self._owed if other is not line]
                        return line, batch
                for line in self._lines:
                    if overdue := line.overdue():
                        for request in overdue:
                            request.error = UnavailableError("no call could begin in time")
                        return line, overdue
                ready_at = min(line.ready_at for line in self._lines)
                if ready_at == math.inf and self._closed:
                    return None
                left = ready_at - time.monotonic()
                self._sleep(None if left == math.inf else max(left, 0))

    def _write(self, line: Line[Item, Result], batch: list[Request[Item, Result]]) -> None:
        """Try each request of the batch once: answer it, or put it back for another time.

        Nothing is repeated here, so that what cannot be written keeps nobody else waiting.
        """
        asked_at = time.monotonic()
        try:
            result_of = line.write(self._connection(), [r.item for r in batch])
            for request in batch:
                request.result = result_of(request.claim.message_id)
                request.answered_at = asked_at
        except UnavailableError as error:
            if not _is_busy(error):
                self._database.discard()
                self._tell(is_connected=False)
            self._again(line, batch, error, alone=_is_busy(error))
        except Exception as error:  # noqa: BLE001 - one bad row must cost only itself
            is_odd = isinstance(error, DatabaseError) and not error.concerns_row
            if len(batch) > 1 or is_odd:
                self._again(line, batch, error, alone=True)
            else:
                known = isinstance(error, PostleaseError)
                # A driver's own error may quote the row.
                batch[0].error = error if known else _unexpected(error)
                answered(batch)
        else:
            answered(batch)

    def _again(
        self,
        line: Line[Item, Result],
        batch: list[Request[Item, Result]],
        error: Exception,
        *,
        alone: bool,
    ) -> None:
        """Put back what still has time; the rest is answered with error."""
        now = time.monotonic()
        too_late: list[Request[Item, Result]] = []
        with self.lock:
            # A try may have waited for a lock: before it is repeated, everybody else has a turn.
            self._owed = [other for other in self._lines if other is not line]
            for request in batch:
                if request.until <= now:
                    request.error = error
                    too_late.append(request)
                    continue
                # What failed among others may be none of its doing: it comes again at once.
                is_first_time_alone = alone and len(batch) > 1
                request.ready_at = now if is_first_time_alone else now + _PAUSE_SECONDS
                request.alone = request.alone or alone
                line.put_back(request)
        answered(too_late)


def _is_busy(error: UnavailableError) -> bool:
    """Whether a lock or the statement's time was the trouble: then perhaps one row's only."""
    return (error.sqlstate or "").startswith(_BUSY)


def _unexpected(error: Exception) -> PostleaseError:
    return PostleaseError(f"writing failed: {type(error).__name__}")
