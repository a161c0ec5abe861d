"""What an attempt's result means for its message: the one place that decides."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from postlease import backoff
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Settlement,
    Throttled,
    Unknown,
    Unreachable,
)

if TYPE_CHECKING:
    from postlease.model import Claim, ClaimedMessage, FailureReason

THROTTLE_DELAY = timedelta(seconds=2)


def settle(
    message: ClaimedMessage, outcome: Outcome, *, template_version: str | None, chance: float
) -> Settlement | None:
    """The settlement of message after outcome; None leaves an unknown one as it is.

    An unknown message stays `sending`: the provider's event, the next claim under the same key or
    the reaper settles it, and never a guess. chance in [0, 1) spreads the waits.
    """
    match outcome:
        case Accepted(provider_message_id):
            return Settlement(
                message.claim,
                "sent",
                "accepted",
                provider_message_id=provider_message_id,
                template_version=template_version,
            )
        case Rejected(code):
            return failed(message.claim, "rejected", outcome="rejected", code=code)
        case Deferred(code):
            return deferred(message, code, chance=chance)
        case Unreachable(code):
            return unreachable(message, code, chance=chance)
        case Blocked(code):
            return blocked(message, code, chance=chance)
        case Throttled(code):
            return _refunded(message, "throttled", code, THROTTLE_DELAY * (0.5 + chance))
        case Unknown():
            return None
        case _:
            assert_never(outcome)


def deferred(message: ClaimedMessage, code: str, *, chance: float) -> Settlement:
    """Try again later, at the cost of this attempt; the last one ends the message."""
    if message.attempts_left <= 0:
        return failed(message.claim, "attempts_exhausted", outcome="deferred", code=code)
    return Settlement(
        message.claim, "pending", "deferred", code=code, delay=_backoff(message, chance)
    )


def unreachable(message: ClaimedMessage, code: str, *, chance: float) -> Settlement:
    """Try again later, at no cost: whoever was needed was not there."""
    return _refunded(message, "unreachable", code, _backoff(message, chance))


def blocked(message: ClaimedMessage, code: str, *, chance: float) -> Settlement:
    """Try again later, at no cost: we may not send, whatever the message."""
    return _refunded(message, "blocked", code, _backoff(message, chance))


def failed(
    claim: Claim, reason: FailureReason, *, outcome: str, code: str | None = None
) -> Settlement:
    """End the message now."""
    return Settlement(claim, "failed", outcome, code=code, failure_reason=reason)


def handed_back(claim: Claim) -> Settlement:
    """Give an unsent message back at once, at no cost; clears the dispatch mark."""
    return Settlement(claim, "pending", "handed_back", refunded=True)


def _refunded(message: ClaimedMessage, word: str, code: str, delay: timedelta) -> Settlement:
    return Settlement(message.claim, "pending", word, code=code, delay=delay, refunded=True)


def _backoff(message: ClaimedMessage, chance: float) -> timedelta:
    return backoff.delay_after(message.claim.attempt, chance=chance)
