"""Claimed messages on their way: each with its deadline and its turn, counted while it flies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from postlease.delivery.deadline import Deadline
from postlease.delivery.turns import NEVER
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postlease.config import TimeRules
    from postlease.database import Database
    from postlease.delivery.crew import Crew
    from postlease.delivery.gatekeeping import Gatekeeper
    from postlease.delivery.sending import Sender
    from postlease.delivery.slots import Slots
    from postlease.delivery.tally import Tally
    from postlease.delivery.turns import Turn
    from postlease.model import ClaimedMessage, Outcome


@dataclass(slots=True)
class Flight:
    """What came of a message's call; None until then, and if there was no call."""

    outcome: Outcome | None = None


class Launcher:
    """Launches what was claimed. ends_at: the monotonic second at which the platform ends the run.

    claims is the run's own connection, on which turns are reserved.
    """

    def __init__(
        self,
        *,
        times: TimeRules,
        claims: Database,
        sender: Sender,
        gatekeeper: Gatekeeper,
        slots: Slots,
        tally: Tally,
        ends_at: float,
    ) -> None:
        self._times = times
        self._claims = claims
        self._sender = sender
        self._gatekeeper = gatekeeper
        self._slots = slots
        self._tally = tally
        self._ends_at = ends_at

    def launch(
        self, crew: Crew, messages: Sequence[ClaimedMessage], asked_at: float
    ) -> list[Flight]:
        """Send each message on its way. asked_at: the monotonic second of the claim."""
        deadline = Deadline(asked_at + self._times.lease.total_seconds(), self._ends_at)
        self._slots.take(len(messages), sum(map(held, messages)))
        self._tally.count("claimed", len(messages))
        turns = self._turns(messages, deadline, asked_at)
        flights = [Flight() for _ in messages]
        crew.begin(
            [
                self._fly(flight, message, deadline, turn)
                for flight, message, turn in zip(flights, messages, turns, strict=True)
            ]
        )
        return flights

    def _turns(
        self, messages: Sequence[ClaimedMessage], deadline: Deadline, asked_at: float
    ) -> list[Turn]:
        try:
            return self._gatekeeper.turns(
                self._claims.connection(),
                messages,
                claimed_at=asked_at,
                latest=deadline.latest_start(self._times.needed_to_start),
            )
        except Exception as error:  # noqa: BLE001 - they are claimed: whatever it is, hand them back
            logger.warning("pacing failed", extra={"reason": type(error).__name__})
            self._claims.discard()
            self._gatekeeper.stand_off()
            return [NEVER for _ in messages]

    async def _fly(
        self, flight: Flight, message: ClaimedMessage, deadline: Deadline, turn: Turn
    ) -> None:
        try:
            flight.outcome = await self._sender.sending(message, deadline, turn)
        finally:
            self._slots.give_back(held(message))


def held(message: ClaimedMessage) -> int:
    """Bytes of its attachments, as they lie in the storage."""
    if not message.attachments:
        return 0
    return sum(attachment.size for attachment in message.attachments)
