"""Until when a run goes on, and a claimed message may be called for and recorded, by our clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.model import ClaimedMessage

_LAST_TRY_SECONDS = 5.0
"""What the last try at a record may take, and the end of the run after it."""


@dataclass(frozen=True, slots=True)
class Times:
    """When a run ends, in monotonic seconds.

    invocation_ends_at: the platform ends the process. linger_until: look for new messages once a
    second until then; a moment in the past means drain and end.
    """

    invocation_ends_at: float
    linger_until: float


@dataclass(frozen=True, slots=True)
class Deadline:
    """Monotonic seconds at which a lease and its invocation end, by the worker's own clock.

    The lease's end is reckoned from before the claim was asked, so it is never later than the
    database's.
    """

    lease_ends_at: float
    invocation_ends_at: float

    def has_room(self, needed: timedelta) -> bool:
        """Whether a call that takes needed would end before both."""
        return time.monotonic() <= self.latest_start(needed)

    @property
    def latest_record(self) -> float:
        """The monotonic second after which a record is not tried again: the run ends in order."""
        return self.invocation_ends_at - _LAST_TRY_SECONDS

    def latest_start(self, needed: timedelta) -> float:
        """The monotonic second until which a call that takes needed may begin."""
        return min(self.lease_ends_at, self.invocation_ends_at) - needed.total_seconds()

    def milliseconds_waited(self, message: ClaimedMessage) -> float:
        """From enqueue (or the time it was asked for) to now.

        The lease's end is known on both clocks, the database's and ours, and joins them.
        """
        due = message.available_at if message.claim.attempt == 1 else message.created_at
        lease_left = self.lease_ends_at - time.monotonic()
        return ((message.lease_expires_at - due).total_seconds() - lease_left) * 1000
