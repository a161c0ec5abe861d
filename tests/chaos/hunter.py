"""Carries the plan out: wire and provider say what point is reached, it says what happens there.

What a killed or cut-off worker held, and what the provider was made to lose, is spared from then
on, so that hardly any message meets a second unknown outcome.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos import plan as plans
from tests.chaos.agenda import Agenda
from tests.chaos.holdings import Holdings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from tests.chaos.ledger import Call
    from tests.chaos.plan import Plan
    from tests.chaos.wire import Statement
    from tests.chaos.workers import Workers

_AFTER_LEASE_SECONDS = 0.7
_RIVAL_COMES_SECONDS = 2.0
_BEFORE_TIMEOUT_SECONDS = 0.4
_RIVAL_SECONDS = 0.9
_HARMLESS = ("before_claim_commits", "after_claim", "before_mark", "before_last_line")
_PATIENCE_SECONDS = 10.0

_CLAIMS = ("outbox.claim", "outbox.claim_named")
_AT_COMMIT = dict.fromkeys(_CLAIMS, "before_claim_commits")
_AT_ANSWER = dict.fromkeys(_CLAIMS, "after_claim") | {
    "outbox.authorize": "after_mark",
    "outbox.record": "after_record",
}
_REAPER = ("outbox.reap_", "outbox.expire_")


@dataclass(eq=False, slots=True)
class _Frozen:
    """A worker that was stopped, and what it held then."""

    pid: int
    ids: frozenset[UUID]
    where: str
    thawed: threading.Event = field(default_factory=threading.Event)


class Hunter:
    """A `wire.Watch`, and the provider's conscience.

    in_client: the messages whose call may have been under way in a worker that was frozen. Such a
    call can leave after the thaw, and no check can stop it; the grace is there for it.
    """

    def __init__(self, plan: Plan, workers: Workers) -> None:
        self._plan = plan
        self._workers = workers
        self._messages: set[UUID] = set()
        self.agenda = Agenda(plan.actions)
        self._lock = threading.RLock()
        self._holdings = Holdings()
        self._frozen: list[_Frozen] = []
        self.in_client: set[UUID] = set()
        self.kills: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def know(self, message: UUID) -> None:
        """message is one of those that the run is about."""
        self._messages.add(message)

    def missed(self) -> dict[str, int]:
        """Kills that never happened, and in a run worth the name kinds of freezes."""
        missed = self.agenda.missed()
        large = self._plan.messages >= 1_000
        return {
            name: number
            for name, number in missed.items()
            if name.startswith("kill:")
            or (
                large
                and name.startswith("freeze:")
                and not self.done[name.replace("freeze:", "frozen_")]
            )
        }

    # What the wire says.

    def asked(self, statement: Statement) -> bool:
        """Before a statement is sent."""
        ids = statement.ids & self._messages
        if statement.title == "outbox.authorize":
            self._holdings.hold(statement.pid, ids)
            self._freeze("before_mark", statement.pid, ids)
        return True

    def stops_at_commit(self, statement: Statement) -> bool:
        """Whether something that happens before a commit is due here."""
        if statement.title.startswith(_REAPER):
            return self.agenda.is_due("kill", "reaper")
        return self.agenda.is_due(
            "kill", _AT_COMMIT.get(statement.title, "")
        ) or self.agenda.is_due("cut", _cut(statement, "commit"))

    def at_commit(self, statement: Statement) -> bool:
        """The work is done, but not committed."""
        if not statement.rows:
            return True
        if statement.title.startswith(_REAPER):
            return not self._kill("reaper", statement.pid)
        ids = statement.ids & self._messages
        point = _AT_COMMIT.get(statement.title)
        if point is not None and self._kill(point, statement.pid):
            return False
        return not self._cut(_cut(statement, "commit"), statement.pid, ids)

    def answered(self, statement: Statement) -> bool:
        """Committed, and not told yet."""
        ids, pid = statement.ids & self._messages, statement.pid
        if statement.title in _CLAIMS:
            self._holdings.hold(pid, ids)
        if self._is_doorbell(pid) and self._kill("doorbell", pid):
            return False
        point = _AT_ANSWER.get(statement.title)
        if point is None or not statement.rows:
            return True
        if self._kill(point, pid):
            return False
        if self._cut(_cut(statement, "answer"), pid, ids):
            if statement.title in _CLAIMS:
                self._holdings.let_go(pid, ids)  # it never learns that it has them
            return False
        if statement.title == "outbox.record":
            self._holdings.let_go(pid, ids)
        if statement.title == "outbox.authorize":
            self._freeze("before_last_line", pid, ids)
        return True

    # What the provider says.

    def spares(self, message: UUID) -> bool:
        """Whether message was hit before."""
        return self._holdings.hits([message]) > 0

    def hit(self, message: UUID) -> None:
        """The provider is about to make trouble for message."""
        self._holdings.hit([message])

    def arrived(self, call: Call, server: int) -> None:
        """A call came in. Whoever was frozen with this message gets his chance to interfere."""
        with self._lock:
            rivals = [frozen for frozen in self._frozen if call.message in frozen.ids]
        pid = self._workers.owner_of(call.port, server=server) if rivals else None
        for frozen in rivals:
            if frozen.pid != pid and not frozen.thawed.is_set():
                self.done[f"overtaken_{frozen.where}"] += 1
                self._thaw(frozen)
                time.sleep(_RIVAL_SECONDS)
        if self.agenda.is_due("freeze", "in_client"):
            found = self._workers.owner_of(call.port, server=server)
            if found is not None:
                self._freeze("in_client", found)

    def accepted(self, call: Call, server: int) -> bool:
        """The mail is taken, and the worker does not know yet; False: it never will."""
        if not self.agenda.is_due("kill", "after_acceptance"):
            return True
        pid = self._workers.owner_of(call.port, server=server)
        return pid is None or not self._kill("after_acceptance", pid)

    # What is done.

    def kill_anywhere(self) -> None:
        """Kill a busy sweep wherever it is, if that is due."""
        if self.agenda.is_due("kill", "sweep"):
            any(self._kill("sweep", pid) for pid in self._workers.busy("sweep"))

    def _kill(self, point: str, pid: int) -> bool:
        with self._claimed_victim("kill", point, pid, ()) as victim:
            if victim and self._workers.send(pid, signal.SIGKILL):
                self.kills[point] += 1
                return True
            if victim:
                self.agenda.give_back("kill", point)
        return False

    def _cut(self, where: str, pid: int, ids: Collection[UUID]) -> bool:
        with self._claimed_victim("cut", where, pid, ids) as victim:
            self.done["cuts"] += victim
            return victim

    @contextmanager
    def _claimed_victim(
        self, kind: str, where: str, pid: int, more: Collection[UUID]
    ) -> Iterator[bool]:
        """Whether it is due, and hits nothing that was hit before; then all of it is marked.

        What leaves no outcome unknown, or has waited for long, may hit a second time.
        """
        with self._lock:
            held = self._holdings.held_by(pid).union(more)
            most = self._holdings.hits(held)
            waits = self.agenda.waits(kind, where)
            allowed = int(where in _HARMLESS or waits > _PATIENCE_SECONDS)
            if most > allowed or self._is_frozen(pid) or not self.agenda.take(kind, where):
                yield False
                return
            self._holdings.hit(held)
            yield True

    def _is_doorbell(self, pid: int) -> bool:
        """Only asked while one is wanted: doorbells are too short to be met by chance."""
        return (
            self.agenda.is_due("kill", "doorbell") and self._workers.function_of(pid) == "doorbell"
        )

    def _is_frozen(self, pid: int) -> bool:
        return any(frozen.pid == pid and not frozen.thawed.is_set() for frozen in self._frozen)

    def _freeze(self, where: str, pid: int, ids: Collection[UUID] = ()) -> None:
        """Stop a worker until its lease is over; the caller's thread waits with it.

        Where another may own the message by then, it is thawed when the other calls the provider.
        """
        if not self.agenda.is_due("freeze", where):
            return
        left = plans.SWEEP_TIMEOUT - _BEFORE_TIMEOUT_SECONDS - self._workers.age(pid)
        seconds = plans.LEASE + _AFTER_LEASE_SECONDS
        if where == "before_mark" or self._plan.provider == "idempotent":
            seconds = max(left, seconds + _RIVAL_COMES_SECONDS)
        if seconds > left:
            return
        with self._claimed_victim("freeze", where, pid, ()) as victim:
            if not victim:
                return
            if not self._workers.send(pid, signal.SIGSTOP):
                self.agenda.give_back("freeze", where)
                return
            held = self._holdings.held_by(pid)
            frozen = _Frozen(pid, held, where)
            self._frozen.append(frozen)
            self.in_client |= held.difference(ids)
            self.done[f"frozen_{where}"] += 1
        if where == "in_client":
            # The provider answers meanwhile; the answer waits in the socket.
            threading.Timer(seconds, self._thaw, [frozen]).start()
        elif not frozen.thawed.wait(seconds):
            self._thaw(frozen)

    def _thaw(self, frozen: _Frozen) -> None:
        if not frozen.thawed.is_set():
            frozen.thawed.set()
            if self._workers.send(frozen.pid, signal.SIGCONT):
                self.done[f"thawed_{frozen.where}"] += 1


def _cut(statement: Statement, side: str) -> str:
    return f"{statement.title.removeprefix('outbox.')}_{side}"
