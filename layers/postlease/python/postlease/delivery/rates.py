"""What providers say about their rate, asked once in a while by each environment."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from postlease.providers import Provider

_TOLD_SECONDS = 900.0
_NOT_TOLD_SECONDS = 60.0


@dataclass(slots=True)
class _Told:
    """What one provider said. ask_at: the monotonic second from which it is asked again."""

    rate: float | None = None
    has_answered: bool = False
    ask_at: float = -math.inf


_told: defaultdict[str, _Told] = defaultdict(_Told)


def told_rate(provider: Provider) -> float | None:
    """Recipients a second that provider takes, as it last said; None if it said that it tells none.

    Raises UnavailableError if it never answered.
    """
    told = _told[provider.name]
    now = time.monotonic()
    if now >= told.ask_at:
        try:
            told.rate = provider.sending_rate()
        except UnavailableError:
            told.ask_at = now + _NOT_TOLD_SECONDS
        else:
            told.has_answered = True
            told.ask_at = now + _TOLD_SECONDS
    if not told.has_answered:
        raise UnavailableError(f"{provider.name} never told its rate")
    return told.rate


def forget() -> None:
    """What a new environment would not know."""
    _told.clear()
