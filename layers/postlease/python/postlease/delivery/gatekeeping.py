"""What one run knows of its provider's gate: when it may send, and what it has to tell.

The truth is the gate's row. Here is the last look at it, so that good times cost no statement.
"""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from postlease import gate
from postlease.delivery.crew import elsewhere
from postlease.delivery.rates import told_rate
from postlease.delivery.turns import NEVER, Turn, fitting_in, paced, recipients_of, sleep_until
from postlease.errors import PostleaseError, UnavailableError
from postlease.model import Blocked, Rejected, Throttled, Unknown, Unreachable
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from postlease.database import Connection
    from postlease.delivery.tally import Tally
    from postlease.delivery.writer import Writer
    from postlease.model import ClaimedMessage, Outcome
    from postlease.providers import Provider

_Answer = TypeVar("_Answer")

_LOOK_SECONDS = 10.0
_TELL_SECONDS = 1.0

_ASK_SECONDS = 2.0
"""How long the gate's row is waited for: whoever holds it longer must not hold up the mail."""

_AHEAD_SECONDS = 0.5
"""How much of the rate one worker holds claimed: what it holds, nothing more urgent can pass."""

_LEAD_SECONDS = 0.1
"""Permission to send is asked so long before the slot, so that the call itself is on time."""


class Gatekeeper:
    """Paces one run's messages and tells the gate of their answers; for any number of threads."""

    def __init__(
        self,
        writer: Writer,
        *,
        provider: Provider,
        tally: Tally,
        own_limit: float | None,
    ) -> None:
        """own_limit: recipients a second that we allow ourselves, whatever the provider does."""
        self._writer = writer
        self._provider = provider
        self._tally = tally
        self._own_limit = own_limit
        self._lock = threading.Lock()
        self._rate: float | None = None
        self._looked_at = -math.inf
        self._reserved_until = -math.inf
        self._is_troubled = False
        self._told_at = -math.inf
        self._closed_at = -math.inf

    def look(self, connection: Connection) -> gate.GateState:
        """The gate as it is now."""
        asked_at = time.monotonic()
        state = gate.look(connection, self._provider.name)
        with self._lock:
            self._looked_at = asked_at
            self._rate = state.rate_per_second
            self._is_troubled = state.closed or state.failures_in_a_row > 0
            self._closed_at = asked_at if state.closed else -math.inf
        return state

    def appetite(self, slots: int) -> int:
        """How many messages to claim with so many slots free; 0 while the rate is used up."""
        if self._reserved_until - _AHEAD_SECONDS > time.monotonic():
            return 0
        if self._rate is None:
            return slots
        return min(slots, max(1, int(self._rate * _AHEAD_SECONDS)))

    @property
    def is_paced(self) -> bool:
        """Whether messages have turns: then none is claimed before its time."""
        return self._rate is not None

    def stand_off(self) -> None:
        """Let a second go by before the next claim: what cannot be paced would only go back."""
        self._reserved_until = time.monotonic() + _AHEAD_SECONDS + _TELL_SECONDS

    def turns(
        self,
        connection: Connection,
        messages: Sequence[ClaimedMessage],
        *,
        claimed_at: float,
        latest: float,
    ) -> list[Turn]:
        """When each of messages may leave, by its recipients; its call must begin before latest.

        Never, for what cannot do so: no slot is reserved for it.
        """
        if messages and time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._learn_rate(connection)
            self.look(connection)
        unpaced = [Turn(claimed_at, claimed_at)] * len(messages)
        if not messages or self._rate is None:
            return unpaced
        self._provider.get_ready()
        asked_at = time.monotonic()
        room = max(latest - asked_at, 0)
        fitting = fitting_in(messages, room * self._rate)
        slots = gate.reserve(
            connection,
            self._provider.name,
            recipients=sum(map(recipients_of, fitting)),
            within=timedelta(seconds=room),
        )
        if slots is None:
            return unpaced
        starts_at = asked_at + slots.wait
        turns = []
        for message in fitting if slots.taken else ():
            span = recipients_of(message) * slots.spacing
            turns.append(paced(claimed_at, starts_at, span))
            starts_at += span
        self._reserved_until = starts_at
        return turns + [NEVER] * (len(messages) - len(turns))

    def wait_for_turn(self, message: ClaimedMessage, turn: Turn, *, latest: float) -> Turn | None:
        """Wait until it is nearly message's turn; None if it is not to be sent by this claim.

        That is so if its slot lies beyond latest, or the gate was closed after the claim. A slot
        that was missed is replaced by a new one.
        """
        if not turn.is_now:
            turn = self._in_time(message, turn, latest=latest)
            if turn.starts_at > latest:
                return None
            sleep_until(turn.starts_at - _LEAD_SECONDS)
        return None if self.has_closed_since(turn) else turn

    def has_closed_since(self, turn: Turn) -> bool:
        """Whether the gate was closed after the claim of turn's message."""
        return self._closed_at > turn.claimed_at

    def take_turn(self, message: ClaimedMessage, turn: Turn, *, latest: float) -> bool:
        """Wait until it is exactly message's turn; False if there is none before latest.

        Nor is there one if the gate was closed meanwhile. To be asked last: what was held up
        together would else call together.
        """
        if turn.is_now:
            return not self.has_closed_since(turn)
        while True:
            turn = self._in_time(message, turn, latest=latest)
            if turn.starts_at > latest:
                return False
            sleep_until(turn.starts_at)
            if self.has_closed_since(turn):
                return False
            if time.monotonic() <= turn.late_at:
                return True

    def note(
        self, message: ClaimedMessage, outcome: Outcome, *, began_at: float, until: float
    ) -> gate.Closing | None:
        """Tell the gate of outcome, where that can matter; how it closed the gate, if it did.

        began_at is the monotonic second of the call. An ordinary answer matters while there is
        trouble, of which we may not know: so it is told once a second. Raises nothing: a gate that
        cannot be told learns from the next answer.
        """
        if _says_nothing(outcome):
            return None
        opens = not isinstance(outcome, Blocked | Unreachable)
        if opens and not isinstance(outcome, Throttled) and not self._is_due():
            return None
        name, message_id = self._provider.name, message.claim.message_id

        def tell(connection: Connection) -> gate.Closing | None:
            age = timedelta(seconds=time.monotonic() - began_at)
            return gate.note(connection, name, message_id, outcome, age=age)

        try:
            closing = self._ask(message, tell, until=until)
        except PostleaseError as error:
            logger.warning("the gate could not be told", extra={"reason": str(error)})
            return None
        with self._lock:
            if closing or isinstance(outcome, Blocked):
                self._closed_at = time.monotonic()
            elif opens and began_at >= self._closed_at:
                self._closed_at = -math.inf
            self._is_troubled = not opens or self._closed_at > -math.inf
        if closing:
            self._tally.count("gate_closed")
            reason = getattr(outcome, "code", None)
            logger.warning("gate closed", extra={"provider": name, "reason": reason})
        return closing

    def _ask(
        self, message: ClaimedMessage, call: Callable[[Connection], _Answer], *, until: float
    ) -> _Answer:
        until = min(until, time.monotonic() + _ASK_SECONDS)
        with elsewhere():
            return self._writer.ask_gate(message.claim, call, until=until)

    def _is_due(self) -> bool:
        """Whether an ordinary answer is to be told now; then the next second's is not."""
        now = time.monotonic()
        if not self._is_troubled and now - self._told_at < _TELL_SECONDS:
            return False
        with self._lock:
            if not self._is_troubled and now - self._told_at < _TELL_SECONDS:
                return False
            self._told_at = now
            return True

    def _in_time(self, message: ClaimedMessage, turn: Turn, *, latest: float) -> Turn:
        """turn, or one of message's own instead of one that went by."""
        if time.monotonic() <= turn.late_at:
            return turn
        name, recipients = self._provider.name, recipients_of(message)
        within = timedelta(seconds=max(latest - time.monotonic(), 0))
        try:
            slots = self._ask(
                message,
                lambda connection: gate.reserve(
                    connection, name, recipients=recipients, within=within
                ),
                until=latest,
            )
        except PostleaseError:
            # No call was made, and the lease has room left to hand the message back.
            return NEVER
        now = time.monotonic()
        if slots is None:
            return Turn(turn.claimed_at, now)
        if not slots.taken:
            return NEVER
        return paced(turn.claimed_at, now + slots.wait, recipients * slots.spacing)

    def _learn_rate(self, connection: Connection) -> None:
        """Let the gate know the lowest limit there is; what it knew stays if nobody answers."""
        try:
            limits = [limit for limit in (self._own_limit, told_rate(self._provider)) if limit]
        except UnavailableError:
            if self._own_limit is None:
                return
            limits = [self._own_limit]
        gate.set_limit(connection, self._provider.name, min(limits, default=None))


def _says_nothing(outcome: Outcome) -> bool:
    """Whether outcome tells nothing of the provider: no answer came, or none was asked for."""
    return isinstance(outcome, Unknown) or (isinstance(outcome, Rejected) and not outcome.is_answer)
