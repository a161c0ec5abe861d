"""How the provider behaves, whatever it speaks: what is accepted, lost, refused or left waiting."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.chaos.plan import EPISODE_SECONDS, GRACE, LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.hunter import Hunter
    from tests.chaos.ledger import Call, Ledger, Mail
    from tests.chaos.plan import Fault, Plan
    from tests.chaos.queues import Queue

Word: TypeAlias = Literal["accepted", "rejected", "throttled", "unavailable", "paused", "silence"]

SOON_SECONDS, LATE_SECONDS = 0.3, LEASE + GRACE + 4.0
_SLOW_SECONDS = 0.7
_POLL_SECONDS = 0.02
_REFUSALS: dict[Fault | None, Word] = {
    "reject": "rejected",
    "throttle": "throttled",
    "unavailable": "unavailable",
}


class Desk:
    """One for all connections. server is the double's own port; hunter is set before any call;
    events leads to whoever is told of accepted mail."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._episode: Word | None = None
        self.server = 0
        self.hunter: Hunter
        self.events: Queue | None = None

    def begin(self, episode: Word) -> None:
        """Answer every call so for a while."""
        self._episode = episode
        threading.Timer(EPISODE_SECONDS, self._end_episode).start()

    def serve(
        self,
        call: Call,
        *,
        is_gone: Callable[[], bool],
        on_accepted: Callable[[Mail], None] = lambda mail: None,
    ) -> tuple[Word, str]:
        """What is answered, with the provider's id if it was accepted. `silence`: hang up."""
        fault = self._fault(call)
        self.hunter.arrived(call, self.server)
        if self._episode is not None:
            return self._episode, ""
        if fault in _REFUSALS:
            return _REFUSALS[fault], ""
        if fault == "stall":
            while not is_gone():
                time.sleep(_POLL_SECONDS)
            return "silence", ""
        if fault == "slow":
            time.sleep(_SLOW_SECONDS)
        mail = self._ledger.accept(call)
        on_accepted(mail)
        if not self.hunter.accepted(call, self.server) or fault == "lose_response":
            return "silence", ""
        return "accepted", mail.provider_id

    def _fault(self, call: Call) -> Fault | None:
        """Note the call; what is planned for it: a refusal for every one, else for the first."""
        is_first = self._ledger.arrive(call) == 1
        fault = self._plan.faults.get(call.number)
        if fault == "reject":
            self._ledger.reject(call.message)
            return fault
        if not is_first or self.hunter.spares(call.message):
            return None
        if fault in {"stall", "lose_response"}:
            self.hunter.hit(call.message)
        return fault

    def publish(self, call: Call, event: str) -> None:
        """Have an event about call delivered: soon, when it is too late, or never."""
        fate = self._plan.events.get(call.number)
        if self.events is not None and fate != "lost":
            self.events.post(event, after=LATE_SECONDS if fate == "late" else SOON_SECONDS)

    def _end_episode(self) -> None:
        self._episode = None
