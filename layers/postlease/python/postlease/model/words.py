"""The words that every room uses: a message's states, purposes and public id, a gate's states."""

from __future__ import annotations

from typing import Literal, TypeAlias
from uuid import UUID

Status: TypeAlias = Literal["pending", "sending", "sent", "failed"]
FailureReason: TypeAlias = Literal[
    "rejected",
    "render_error",
    "attachment_missing",
    "attachment_changed",
    "attempts_exhausted",
    "worker_lost",
    "outcome_unknown",
    "expired",
    "superseded",
    "suppressed",
    "cancelled",
]
DeliveryPolicy: TypeAlias = Literal["at_least_once", "at_most_once"]
Purpose: TypeAlias = Literal["verify_email", "reset_password"]
GateWord: TypeAlias = Literal["open", "closed", "paused"]
"""closed: by the provider's answers, and probes find out when to open it; paused: by somebody."""

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_EVENT_PREFIX = "evt_"
_ULID_LENGTH = 26
_PAIRS = [left + right for left in _CROCKFORD for right in _CROCKFORD]
_SHIFTS = range(5 * (_ULID_LENGTH - 2), -1, -10)


def event_id(message_id: UUID) -> str:
    """The wire form of a message's id: `evt_` and the 26 characters of its ULID form."""
    number = message_id.int
    return _EVENT_PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def parse_event_id(text: str) -> UUID | None:
    """The id behind its wire form, or None for anything `event_id` would not have written."""
    digits = text.removeprefix(_EVENT_PREFIX)
    if len(text) != len(_EVENT_PREFIX) + _ULID_LENGTH or len(digits) != _ULID_LENGTH:
        return None
    number = 0
    for character in digits:
        value = _CROCKFORD.find(character)
        if value < 0:
            return None
        number = number * 32 + value
    return UUID(int=number) if number < 1 << 128 else None
