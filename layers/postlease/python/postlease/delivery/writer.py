"""Group commit: what many senders ask of the database goes out in shared statements.

There is no timer. A lone request is written at once; those that arrive while a commit is under way
share the next one. Records go before authorizations: an accepted mail that is not yet recorded is
the one thing that must not wait. What is asked of the gate goes in between, a statement each.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from postlease import outbox
from postlease.errors import DatabaseError, PostleaseError, UnavailableError
from postlease.model import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from postlease.database import Connection, Database
    from postlease.model import Claim

BATCH = 250
"""Longer arrays cost more than they save: array_position is linear."""

_PAUSE_SECONDS = 0.05

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Request(Generic[Item, Result]):
    """One caller's item; until is the monotonic second after which repeating is pointless."""

    item: Item
    claim: Claim
    until: float
    answer: Future[Result] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _GateCall:
    """A statement about the gate, asked for on behalf of one message."""

    message_id: UUID
    call: Callable[[Connection], Any]


class _Line(Generic[Item, Result]):
    """Waiting requests of one kind, and how a batch of them is written."""

    def __init__(self, write: Callable[[Connection, list[Item]], Callable[[UUID], Result]]) -> None:
        self._waiting: deque[_Request[Item, Result]] = deque()
        self.write = write

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: _Request[Item, Result]) -> None:
        self._waiting.append(request)

    def take(self) -> list[_Request[Item, Result]]:
        """The next batch. A message stands in it once: its claims cannot be told apart by id."""
        batch: dict[UUID, _Request[Item, Result]] = {}
        later: list[_Request[Item, Result]] = []
        while self._waiting and len(batch) < BATCH:
            request = self._waiting.popleft()
            if batch.setdefault(request.claim.message_id, request) is not request:
                later.append(request)
        self._waiting.extendleft(reversed(later))
        return list(batch.values())


class Writer:
    """Writes authorizations and records on a connection and a thread of its own.

    authorize, record and hand-back are safe to repeat, and are repeated: on a broken connection
    until the request's time is over; a batch that fails is replayed row by row.
    """

    def __init__(self, database: Database, terms: outbox.Terms) -> None:
        self._database = database
        self._wake = threading.Condition()
        self._closed = False

        def authorize(
            connection: Connection, asked: list[outbox.Asked]
        ) -> Callable[[UUID], outbox.Verdict | None]:
            return outbox.authorize(connection, asked, terms).get

        def record(connection: Connection, settlements: list[Settlement]) -> Callable[[UUID], bool]:
            return outbox.record(connection, settlements).__contains__

        def ask_gate(connection: Connection, asked: list[_GateCall]) -> Callable[[UUID], Any]:
            return {one.message_id: one.call(connection) for one in asked}.__getitem__

        self._asks = _Line[outbox.Asked, outbox.Verdict | None](authorize)
        self._gate_calls = _Line[_GateCall, Any](ask_gate)
        self._records = _Line[Settlement, bool](record)
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
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def authorize(self, asked: outbox.Asked, *, until: float) -> outbox.Verdict | None:
        """The verdict on one claim, committed; None if the lease was lost.

        Raises UnavailableError if the database did not answer until then: the mark may be set,
        but nothing has left.
        """
        return self._submit(self._asks, _Request(asked, asked.claim, until))

    def record(self, settlement: Settlement, *, until: float) -> bool:
        """Whether the settlement stands in the database; False if the lease was lost.

        Raises UnavailableError if the database did not answer until then.
        """
        return self._submit(self._records, _Request(settlement, settlement.claim, until))

    def ask_gate(
        self, claim: Claim, call: Callable[[Connection], Result], *, until: float
    ) -> Result:
        """What call answers on the writer's connection; it may be repeated.

        Raises UnavailableError if the database did not answer until then.
        """
        asked = _Request[_GateCall, Result](_GateCall(claim.message_id, call), claim, until)
        answer: Result = self._submit(self._gate_calls, asked)
        return answer

    def _submit(self, line: _Line[Item, Result], request: _Request[Item, Result]) -> Result:
        with self._wake:
            line.put(request)
            self._wake.notify()
        return request.answer.result()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._closed or self._records or self._gate_calls or self._asks
                )
                records, gate_calls, asks = self._records.take(), [], []
                if not records:
                    gate_calls = self._gate_calls.take()
                if not records and not gate_calls:
                    asks = self._asks.take()
            if records:
                self._write(self._records, records)
            elif gate_calls:
                self._write(self._gate_calls, gate_calls)
            elif asks:
                self._write(self._asks, asks)
            else:
                return

    def _write(self, line: _Line[Item, Result], batch: list[_Request[Item, Result]]) -> None:
        """Answer every request of the batch, with a result or with an error."""
        while batch:
            try:
                result_of = line.write(self._database.connection(), [r.item for r in batch])
            except UnavailableError as error:
                self._database.discard()
                batch = self._give_up_late(batch, error)
                time.sleep(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - one bad row must cost only itself
                if len(batch) == 1 and _may_pass(error):
                    batch = self._give_up_late(batch, error)
                    time.sleep(_PAUSE_SECONDS)
                    continue
                self._replay(line, batch, error)
                return
            else:
                for request in batch:
                    request.answer.set_result(result_of(request.claim.message_id))
                return

    def _give_up_late(
        self, batch: list[_Request[Item, Result]], error: Exception
    ) -> list[_Request[Item, Result]]:
        now = time.monotonic()
        for request in batch:
            if request.until <= now:
                request.answer.set_exception(error)
        return [request for request in batch if request.until > now]

    def _replay(
        self, line: _Line[Item, Result], batch: list[_Request[Item, Result]], error: Exception
    ) -> None:
        if len(batch) > 1:
            for request in batch:
                self._write(line, [request])
        else:
            known = isinstance(error, PostleaseError)
            # A driver's own error may quote the row.
            batch[0].answer.set_exception(error if known else _unexpected(error))


def _may_pass(error: Exception) -> bool:
    """Whether repeating may help: the row itself is not refused, as in class 22 or 23."""
    return isinstance(error, DatabaseError) and (error.sqlstate or "22")[:2] not in {"22", "23"}


def _unexpected(error: Exception) -> PostleaseError:
    return PostleaseError(f"writing failed: {type(error).__name__}")
