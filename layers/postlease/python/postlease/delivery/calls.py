"""How many messages are let through to the provider, and how far ahead others may be claimed.

What leaves within a moment is claimed already, so that no slot waits for a claim; and of that only
the next few are authorized, so that no verdict is much older than its call. How many that is tells
the time that calls take.
"""

from __future__ import annotations

import math

_CLAIMED_SECONDS = 0.05
_AUTHORIZED_SECONDS = 0.03
_AUTHORIZED_SHARE = 0.5
"""Of size, at most: what is authorized counts as perhaps sent, should its worker die."""

_WEIGHT = 0.1


class Calls:
    """Counts what was let through to at most size calls at once. Its writer's lock guards it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._through = 0
        self._seconds = math.inf
        self.is_held = False
        """While it is, nobody is let through."""

    @property
    def room(self) -> int:
        """How many more may be let through."""
        if self.is_held:
            return 0
        ahead = min(self._within(_AUTHORIZED_SECONDS), self._size * _AUTHORIZED_SHARE)
        return self._size + math.ceil(ahead) - self._through

    def ahead(self) -> int:
        """How many more than size may be claimed: what sets out within a moment, at most size."""
        return int(self._within(_CLAIMED_SECONDS))

    def begin(self, number: int) -> None:
        """Let number of messages through."""
        self._through += number

    def end(self, seconds: float | None) -> None:
        """One has called, or will not; seconds: what its call took, if it tells of the next."""
        self._through -= 1
        if seconds is not None:
            known = seconds if math.isinf(self._seconds) else self._seconds
            self._seconds = known + (seconds - known) * _WEIGHT

    def _within(self, seconds: float) -> float:
        """How many calls begin within so many seconds, at most size."""
        return self._size * min(seconds / max(self._seconds, seconds), 1.0)
