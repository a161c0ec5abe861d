"""How far a run has claimed, so that it need not begin at the queue's start each time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.model import ClaimedMessage

_START = ("-infinity", UUID(int=0))
_FULL_LOOK_SECONDS = 5.0


class Floors:
    """How far each class but auth has been claimed, so that a claim starts behind dead entries.

    A look from the start is due every five seconds: it finds late commits, retries and what a
    reaper gave back.
    """

    def __init__(self) -> None:
        self._positions: dict[int, tuple[datetime | str, UUID]] = {}
        self._reset_at = time.monotonic()

    def at_start(self) -> bool:
        """Whether the next claim looks at everything that is due."""
        if time.monotonic() - self._reset_at >= _FULL_LOOK_SECONDS:
            self.reset()
        return not self._positions

    def reset(self) -> None:
        """Let the next claim look from the start."""
        self._positions.clear()
        self._reset_at = time.monotonic()

    def advance(self, messages: list[ClaimedMessage]) -> None:
        """Note the last claimed position of each class; auth mail has no floor."""
        for message in messages:
            if message.priority:
                self._positions[message.priority] = (message.available_at, message.claim.message_id)

    def parameters(self) -> dict[str, datetime | str | UUID]:
        """The positions as the claim's parameters."""
        at_50, id_50 = self._positions.get(50, _START)
        at_100, id_100 = self._positions.get(100, _START)
        return {
            "floor_50_at": at_50,
            "floor_50_id": id_50,
            "floor_100_at": at_100,
            "floor_100_id": id_100,
        }
