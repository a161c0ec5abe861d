"""When a claimed message may leave, where a rate is kept to."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from postlease.delivery.crew import elsewhere
from postlease.model.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postlease.model import ClaimedMessage

_LATE_SECONDS = 0.1
"""A slot that was missed by more, and by half of its own span, is not used: late calls would come
in a burst."""


@value
class Turn:
    """When a claimed message may leave, in monotonic seconds; late_at is when that is missed."""

    claimed_at: float
    starts_at: float
    late_at: float = math.inf

    @property
    def is_now(self) -> bool:
        """Whether there is nothing to wait for, and nothing to miss."""
        return self.starts_at == self.claimed_at


NEVER = Turn(-math.inf, math.inf)
"""The turn of a message that is handed back."""


def paced(claimed_at: float, starts_at: float, span: float) -> Turn:
    """The turn of a message whose recipients take span seconds of the rate."""
    return Turn(claimed_at, starts_at, starts_at + max(_LATE_SECONDS, span / 2))


def sleep_until(moment: float) -> None:
    """Return at a monotonic second; another thread carries the others on meanwhile."""
    left = moment - time.monotonic()
    if left > 0:
        with elsewhere():
            time.sleep(left)


def fitting_in(messages: Sequence[ClaimedMessage], recipients: float) -> list[ClaimedMessage]:
    """The first of messages, up to the one that goes beyond so many recipients."""
    fitting: list[ClaimedMessage] = []
    for message in messages:
        if recipients < 0:
            break
        fitting.append(message)
        recipients -= recipients_of(message)
    return fitting


def recipients_of(message: ClaimedMessage) -> int:
    """How many addresses its call has: what rates are counted in."""
    return len(message.to_addresses) + len(message.cc_addresses) + len(message.bcc_addresses)
