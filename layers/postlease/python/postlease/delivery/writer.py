"""Group commit: what many senders ask of the database goes out in shared statements.

Records have a connection and a thread of their own: an accepted mail that is not yet recorded is
the one thing that must not wait. On the other, what is asked of the gate, a statement each, goes
before authorizations.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from postlease import outbox
from postlease.delivery.lanes import Lane
from postlease.delivery.requests import Line, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from postlease.database import Connection
    from postlease.delivery.calls import Calls
    from postlease.delivery.connections import Connections
    from postlease.model import Claim, Settlement

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _GateCall:
    """A statement about the gate, asked for on behalf of one message."""

    message_id: UUID
    call: Callable[[Connection], Any]


class Writer:
    """Writes authorizations and records, each on a connection and a thread of its own.

    authorize, record and hand-back are safe to repeat, and are repeated, see `Lane`. Nothing is
    authorized while records have no connection: it would leave, and nobody could write it down.
    """

    def __init__(self, connections: Connections, terms: outbox.Terms, calls: Calls) -> None:
        """calls: how many may be authorized and not have called yet, see `let_go`."""
        self._calls = calls
        self._verdicts = Lane("verdicts", connections.verdicts)
        self._recorder = Lane("records", connections.records, self._hold_unless)
        calls.is_held = True
        self._lanes = contextlib.ExitStack()

        def authorize(
            connection: Connection, asked: list[outbox.Asked]
        ) -> Callable[[UUID], outbox.Verdict | None]:
            return outbox.authorize(connection, asked, terms).get

        def record(connection: Connection, settlements: list[Settlement]) -> Callable[[UUID], bool]:
            return outbox.record(connection, settlements).__contains__

        def ask_gate(connection: Connection, asked: list[_GateCall]) -> Callable[[UUID], Any]:
            return {one.message_id: one.call(connection) for one in asked}.__getitem__

        self._records: Line[Settlement, bool] = self._recorder.line(record)
        # One at a time: a part of a batch that has been done would be done again.
        self._gate_calls: Line[_GateCall, Any] = self._verdicts.line(ask_gate, longest=1)
        # Of those that are let through: no call has to end for it.
        self._renewals: Line[outbox.Asked, outbox.Verdict | None] = self._verdicts.line(authorize)
        self._asks: Line[outbox.Asked, outbox.Verdict | None] = self._verdicts.line(
            authorize, calls=calls
        )

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as lanes:
            lanes.enter_context(self._verdicts)
            # If the system has no thread for it, the other one ends too.
            lanes.enter_context(self._recorder)
            self._lanes = lanes.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what waits, then end the threads."""
        self._lanes.__exit__(kind, error, traceback)

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
        with self._verdicts.lock:
            self._calls.end(seconds)
            if self._asks:
                self._verdicts.rouse()

    def _hold_unless(self, can_record: bool) -> None:  # noqa: FBT001 - as a lane tells it
        with self._verdicts.lock:
            self._calls.is_held = not can_record
            self._verdicts.rouse()

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
