"""The claim loop: keep the send slots busy until nothing is due or the time is up.

`run` takes what is due; `run_named` takes what it is told, and nothing else.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from postlease import gate, outbox
from postlease.delivery.crew import Crew
from postlease.delivery.intake import Intake
from postlease.delivery.launching import Launcher, held
from postlease.delivery.slots import Slots
from postlease.errors import UnavailableError
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.config import Settings
    from postlease.database import Database
    from postlease.delivery.deadline import Times
    from postlease.delivery.gatekeeping import Gatekeeper
    from postlease.delivery.sending import Sender
    from postlease.delivery.tally import Tally
    from postlease.model import ClaimedMessage

_POLL_SECONDS = 1.0
_SUSPECT_TURN_SECONDS = 10.0

_DRAIN_SECONDS = 5.0
"""How long a run holds its breath for a message that must go alone: one call, or a record, that
takes longer must not keep the others waiting."""

_PROBE_TRIES = 5
"""Messages that one probe may use up without a call: after that the next interval probes."""


class Drain:
    """One run of claim and send. Claims no more than sets out within a moment: no hoard."""

    def __init__(
        self,
        *,
        settings: Settings,
        claims: Database,
        sender: Sender,
        gatekeeper: Gatekeeper,
        provider: str,
        tally: Tally,
        times: Times,
        worker: str,
    ) -> None:
        self._settings = settings
        self._claims = claims
        self._gatekeeper = gatekeeper
        self._provider = provider
        self._tally = tally
        self._times = times
        self._plain_at = 0.0
        self._suspects_at = 0.0
        self._slots = Slots(
            settings.send_slots,
            settings.attachment_bytes_in_flight,
            sender.ahead,
        )
        self._launcher = Launcher(
            times=settings.times,
            claims=claims,
            sender=sender,
            gatekeeper=gatekeeper,
            slots=self._slots,
            tally=tally,
            ends_at=times.invocation_ends_at,
        )
        self._intake = Intake(
            settings=settings,
            claims=claims,
            slots=self._slots,
            provider=provider,
            worker=worker,
            storage_is_silent=sender.storage_is_silent,
        )

    def run(self) -> None:
        """Claim and send until nothing is due and lingering is over, or the time is short.

        Returns when nothing is in flight any more. While the provider's gate is closed nothing is
        sent but a probe, when one is due. UnavailableError if the database is away when lingering
        is over.
        """
        with Crew(self._settings.send_slots) as crew:
            while self._has_time():
                room = self._intake.room
                # Room that came back while it looked: what it left may fit now.
                if self._turn(crew) or self._intake.room != room:
                    continue
                if not self._slots.in_flight and not self._lingers():
                    # A last look, so that draining includes the suspects.
                    if self._suspect_turn(crew, every=0):
                        continue
                    break
                self._slots.wait(_POLL_SECONDS)

    def run_named(self, ids: Sequence[UUID]) -> None:
        """Claim those of ids that are due, and no other, and send them.

        Returns when nothing is in flight any more. What could not be looked at, for want of time or
        of a database, is left in the tally's unseen.
        """
        left = list(dict.fromkeys(ids))
        with Crew(self._settings.send_slots) as crew:
            while left and self._has_time():
                slots = self._slots.gather()
                named, room = left[:slots], self._intake.room
                try:
                    started = self._start_named(crew, named, room)
                except UnavailableError as error:
                    self._claims.discard()
                    self._tally.count("database_unavailable")
                    logger.warning("claiming failed", extra={"reason": str(error)})
                    break
                left = left[slots:]
                if room.alone and not any(map(held, started)):
                    continue
                # Perhaps there was no room: they come again behind the others.
                claimed = {message.claim.message_id for message in started}
                left += [message_id for message_id in named if message_id not in claimed]
                if not started and self._intake.room == room:
                    self._slots.wait(_POLL_SECONDS)
        self._tally.unseen.update(left)

    def _turn(self, crew: Crew) -> bool:
        """Claim and start what is due; False if that was nothing."""
        try:
            every = _SUSPECT_TURN_SECONDS if self._slots.in_flight else _POLL_SECONDS
            if self._suspect_turn(crew, every=every):
                return True
            slots = self._gatekeeper.appetite(self._slots.gather())
            return slots > 0 and (
                self._held_up_turn(crew)
                or self._start(crew, slots)
                or self._plain_turn(crew, slots)
                or self._probe_turn(crew)
            )
        except UnavailableError as error:
            # A restart of the server is over soon; whoever lingers can wait for it.
            self._claims.discard()
            self._tally.count("database_unavailable")
            logger.warning("claiming failed", extra={"reason": str(error)})
            if not self._lingers():
                raise
            return False

    def _suspect_turn(self, crew: Crew, *, every: float) -> bool:
        """A message that a lost worker held goes alone, so that it can take nobody along."""
        now = time.monotonic()
        if now - self._suspects_at < every:
            return False
        self._suspects_at = now
        if not outbox.suspects_due(self._claims.connection()):
            return False
        if not self._slots.drain(_DRAIN_SECONDS):
            return False
        found = self._start(crew, 1, suspects=True)
        self._slots.drain()
        return found

    def _probe_turn(self, crew: Crew) -> bool:
        """One message through a closed gate, alone, if it is time; False if it is not.

        A message that comes to no call answers nothing: then the next one is tried.
        """
        connection = self._claims.connection()
        state = self._gatekeeper.look(connection)
        if not state.probe_is_due or not outbox.waiting(connection):
            return False
        if not self._slots.drain(_DRAIN_SECONDS):
            return False
        probe = gate.take_probe(connection, self._provider) if self._has_time() else None
        tries = 0
        while probe and tries < _PROBE_TRIES and self._has_time():
            tries += 1
            asked_at = time.monotonic()
            messages = self._intake.probe(probe.avoid)
            if not messages:
                break
            [flight] = self._launcher.launch(crew, messages, asked_at)
            self._slots.drain()
            if flight.outcome is not None:
                return True
        return False

    def _held_up_turn(self, crew: Crew) -> bool:
        """What waits longest for room gets it before anything else that needs some."""
        room = self._intake.room
        if not self._has_time():
            return False
        held_up = self._intake.held_up(room)
        return held_up is not None and bool(self._start_named(crew, [held_up], room))

    def _plain_turn(self, crew: Crew, slots: int) -> bool:
        """What has no attachments does not wait behind those that wait for room.

        A look in vain may have read past all of them: the next is a second later.
        """
        if self._intake.room.alone or time.monotonic() < self._plain_at:
            return False
        if self._start(crew, slots, plain=True):
            return True
        self._plain_at = time.monotonic() + _POLL_SECONDS
        return False

    def _start(
        self,
        crew: Crew,
        slots: int,
        *,
        suspects: bool = False,
        plain: bool = False,
    ) -> bool:
        """Claim up to slots messages and send each on its way; False if nothing was claimed."""
        if not self._has_time():
            return False
        asked_at = time.monotonic()
        messages = self._intake.due(slots, suspects=suspects, plain=plain)
        self._launcher.launch(crew, messages, asked_at)
        return bool(messages)

    def _start_named(
        self, crew: Crew, ids: Sequence[UUID], room: outbox.Room
    ) -> list[ClaimedMessage]:
        """Claim those of ids that are due and that there is room for, and send each on its way."""
        asked_at = time.monotonic()
        messages = self._intake.named(ids, room)
        self._launcher.launch(crew, messages, asked_at)
        return messages

    def _has_time(self) -> bool:
        needed = self._settings.times.needed_to_start.total_seconds()
        return time.monotonic() + needed < self._times.invocation_ends_at

    def _lingers(self) -> bool:
        return time.monotonic() < self._times.linger_until
