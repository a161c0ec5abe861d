"""Group commit: what many senders ask of the database goes out in shared statements.

A lone request is written at once; those that arrive while a commit is under way share the next one,
and where several came, but few, it lingers a moment for more. Records go before authorizations: an
accepted mail that is not yet recorded is the one thing that must not wait. What is asked of the
gate goes in between, a statement each. What fails is put back behind the others of its kind and
comes again until its time is over.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from postlease import outbox
from postlease.delivery.requests import Line, Request, answered
from postlease.errors import DatabaseError, PostleaseError, UnavailableError
from postlease.model import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from postlease.database import Connection, Database
    from postlease.delivery.calls import Calls
    from postlease.model import Claim

_PAUSE_SECONDS = 0.05
_FEW = 64
_LINGER_SECONDS = 0.003

_BUSY = ("40", "55P03", "57014")
"""Deadlock and serialization, lock timeout, statement timeout."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _GateCall:
    """A statement about the gate, asked for on behalf of one message."""

    message_id: UUID
    call: Callable[[Connection], Any]


class Writer:
    """Writes authorizations and records on a connection and a thread of its own.

    authorize, record and hand-back are safe to repeat, and are repeated: on a broken connection
    until the request's time is over; a batch that fails is replayed row by row.
    """

    def __init__(self, database: Database, terms: outbox.Terms, calls: Calls) -> None:
        """calls: how many may be authorized and not have called yet, see `let_go`."""
        self._database = database
        self._calls = calls
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waits = False
        self._closed = False

        def authorize(
            connection: Connection, asked: list[outbox.Asked]
        ) -> Callable[[UUID], outbox.Verdict | None]:
            return outbox.authorize(connection, asked, terms).get

        def record(connection: Connection, settlements: list[Settlement]) -> Callable[[UUID], bool]:
            return outbox.record(connection, settlements).__contains__

        def ask_gate(connection: Connection, asked: list[_GateCall]) -> Callable[[UUID], Any]:
            return {one.message_id: one.call(connection) for one in asked}.__getitem__

        self._records = Line[Settlement, bool](self._lock, self._rouse, record)
        # One at a time: a part of a batch that has been done would be done again.
        self._gate_calls = Line[_GateCall, Any](self._lock, self._rouse, ask_gate, longest=1)
        self._asks = Line[outbox.Asked, outbox.Verdict | None](
            self._lock, self._rouse, authorize, calls=calls
        )
        # Of those that are let through: no call has to end for it.
        self._renewals = Line[outbox.Asked, outbox.Verdict | None](
            self._lock, self._rouse, authorize
        )
        self._lines: tuple[Line[Any, Any], ...] = (
            self._records,
            self._gate_calls,
            self._renewals,
            self._asks,
        )
        self._owed: list[Line[Any, Any]] = []
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

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
        with self._lock:
            self._closed = True
            self._rouse()
        self._thread.join()

    def authorizing(
        self, asked: outbox.Asked, *, until: float, urgency: int = 0
    ) -> Request[outbox.Asked, outbox.Verdict | None]:
        """What to await, or to wait for, for what `authorize` answers; then `let_go` is owed."""
        return Request(self._asks, asked, asked.claim, until, urgency)

    def renewing(
        self, asked: outbox.Asked, *, until: float
    ) -> Request[outbox.Asked, outbox.Verdict | None]:
        """The same for who has a verdict and still owes `let_go`: that is then owed once."""
        return Request(self._renewals, asked, asked.claim, until)

    def ahead(self) -> int:
        """How many messages beyond those that call will call within a moment."""
        return self._calls.ahead()

    def let_go(self, seconds: float | None = None) -> None:
        """An authorized message has called, or will not: another may.

        seconds: what an accepted call took.
        """
        with self._lock:
            self._calls.end(seconds)
            if self._asks:
                self._rouse()

    def recording(self, settlement: Settlement, *, until: float) -> Request[Settlement, bool]:
        """What to await, or to wait for, for what `record` answers."""
        return Request(self._records, settlement, settlement.claim, until)

    def authorize(self, asked: outbox.Asked, *, until: float) -> outbox.Verdict | None:
        """The verdict on one claim, committed; None if the lease was lost.

        Raises UnavailableError if the database did not answer until then: the mark may be set,
        but nothing has left.
        """
        try:
            return self.authorizing(asked, until=until).wait()
        finally:
            self.let_go()

    def record(self, settlement: Settlement, *, until: float) -> bool:
        """Whether the settlement stands in the database; False if the lease was lost.

        Raises UnavailableError if the database did not answer until then.
        """
        return self.recording(settlement, until=until).wait()

    def ask_gate(
        self, claim: Claim, call: Callable[[Connection], Result], *, until: float
    ) -> Result:
        """What call answers on the writer's connection; it may be repeated.

        Raises UnavailableError if the database did not answer until then.
        """
        asked = _GateCall(claim.message_id, call)
        answer: Result = Request(self._gate_calls, asked, claim, until).wait()
        return answer

    def _run(self) -> None:
        while work := self._next():
            line, batch = work
            if batch[0].error is not None:
                answered(batch)
                continue
            self._write(line, batch)
            if line is self._asks and 1 < len(batch) < _FEW:
                time.sleep(_LINGER_SECONDS)

    def _next(self) -> tuple[Line[Any, Any], list[Request[Any, Any]]] | None:
        """Wait for a batch and take the most urgent line's; None when closed and nothing waits."""
        with self._lock:
            while True:
                for line in (*self._owed, *self._lines):
                    if batch := line.take():
                        self._owed = [other for other in self._owed if other is not line]
                        return line, batch
                if overdue := self._asks.overdue():
                    for request in overdue:
                        request.error = UnavailableError("no call was free in time")
                    return self._asks, overdue
                ready_at = min(line.ready_at for line in self._lines)
                if ready_at == math.inf and self._closed:
                    return None
                self._waits = True
                left = ready_at - time.monotonic()
                self._wake.wait(None if left == math.inf else max(left, 0))
                self._waits = False

    def _rouse(self) -> None:
        """Wake the thread, if it waits; with the lock in hand."""
        if self._waits:
            self._waits = False
            self._wake.notify()

    def _write(self, line: Line[Item, Result], batch: list[Request[Item, Result]]) -> None:
        """Try each request of the batch once: answer it, or put it back for another time.

        Nothing is repeated here, so that what cannot be written keeps nobody else waiting.
        """
        asked_at = time.monotonic()
        try:
            result_of = line.write(self._database.connection(), [r.item for r in batch])
            for request in batch:
                request.result = result_of(request.claim.message_id)
                request.answered_at = asked_at
        except UnavailableError as error:
            if not _is_busy(error):
                self._database.discard()
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
        with self._lock:
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
