"""What one run claims: no more than there is room for, and nobody waits for ever for room."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from postlease import outbox
from postlease.delivery.launching import held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from postlease.config import Settings
    from postlease.database import Database
    from postlease.delivery.slots import Slots
    from postlease.model import ClaimedMessage

_HELD_UP_SECONDS = 10.0
"""How long after attachments set out a run looks for what waits longest for room. Behind a large
message its own class waits; the classes before it would take the room again and again."""

_NONE = outbox.Room(0, alone=False)


class Intake:
    """Claims on the run's own connection. worker names the environment in the leases.

    storage_is_silent: whether a message with attachments would only wait for the storage.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        claims: Database,
        slots: Slots,
        provider: str,
        worker: str,
        storage_is_silent: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._claims = claims
        self._slots = slots
        self._provider = provider
        self._worker = worker
        self._storage_is_silent = storage_is_silent
        self._floors = outbox.Floors()
        self._plain_floors = outbox.Floors()
        self._held_up: outbox.HeldUp | None = None
        self._look_at: float | None = None

    @property
    def room(self) -> outbox.Room:
        """What attachments may be claimed now."""
        return _NONE if self._storage_is_silent() else self._slots.room

    def due(
        self, slots: int, *, suspects: bool = False, plain: bool = False
    ) -> list[ClaimedMessage]:
        """Claim up to slots messages; suspects and plain as in `outbox.claim`."""
        return self._noted(
            outbox.claim(
                self._claims.connection(),
                self._claimant(),
                slots=slots,
                room=_NONE if self._held_up else self.room,
                floors=self._plain_floors if plain else self._floors,
                suspects=suspects,
                plain=plain,
            )
        )

    def named(self, ids: Sequence[UUID], room: outbox.Room) -> list[ClaimedMessage]:
        """Claim those of ids that are due and that there is room for."""
        connection = self._claims.connection()
        return self._noted(outbox.claim_named(connection, self._claimant(), ids, room))

    def probe(self, avoid: UUID | None) -> list[ClaimedMessage]:
        """Claim the one message that may pass a closed gate, see `outbox.claim_probe`."""
        message = outbox.claim_probe(self._claims.connection(), self._claimant(), avoid=avoid)
        return self._noted([message] if message else [])

    def held_up(self, room: outbox.Room) -> UUID | None:
        """What waits longest for room, once, when it fits: it goes before anything that needs some.

        Until then nothing else that needs room is claimed.
        """
        if self._look_at is not None and time.monotonic() >= self._look_at:
            self._look_at = None
            self._held_up = outbox.held_up(self._claims.connection(), room)
        if not self._held_up or not room.takes(self._held_up.size):
            return None
        message_id, self._held_up = self._held_up.message_id, None
        return message_id

    def _noted(self, messages: list[ClaimedMessage]) -> list[ClaimedMessage]:
        if self._look_at is None and any(map(held, messages)):
            self._look_at = time.monotonic() + _HELD_UP_SECONDS
        return messages

    def _claimant(self) -> outbox.Claimant:
        return outbox.Claimant(
            owner=f"{self._worker}#{uuid4().hex}",
            provider=self._provider,
            lease=self._settings.times.lease,
            max_attempts=self._settings.max_attempts,
        )
