"""What travels between the rooms: messages, mails, outcomes. Values only: no network, no clock.

Durations are `timedelta`, moments are aware `datetime`s read from the database, identifiers `UUID`.
Types that hold an address, a parameter or a body do not print it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

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


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The token that a message carries, as the claim found it; enough to derive the link again."""

    id: UUID
    user_id: UUID
    purpose: Purpose
    version: int
    key_id: str
    token_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AttachmentReference:
    """A pinned S3 object: key, version, size in bytes and SHA-256 as they were at enqueue.

    content_id: what the HTML calls an inline image by; None for an ordinary attachment.
    """

    filename: str
    content_type: str
    storage_ref: str
    version_id: str | None
    size: int
    sha256: bytes
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who holds a lease: all three must still match for anything to change."""

    message_id: UUID
    owner: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A leased message with everything that delivery needs, so that nothing is read twice.

    parameters_json is read by whoever renders: what a producer wrote there must not be able to
    disturb a claim. counted_attempts are the claims that were the message's own, this one included.
    recipient_names has the addresses in lower case.
    """

    claim: Claim
    priority: int
    available_at: datetime
    created_at: datetime
    lease_expires_at: datetime
    template: str
    locale: str
    delivery: DeliveryPolicy
    attempts_left: int
    counted_attempts: int
    retry_count: int
    parameters_json: str = field(repr=False)
    to_addresses: tuple[str, ...] = field(repr=False)
    cc_addresses: tuple[str, ...] = field(repr=False)
    bcc_addresses: tuple[str, ...] = field(repr=False)
    recipient_names: dict[str, str] = field(repr=False)
    from_address: str | None = field(repr=False)
    reply_to: str | None = field(repr=False)
    tags: dict[str, str]
    token: TokenFacts | None
    attachments: tuple[AttachmentReference, ...]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A loaded attachment. content_id is what the HTML calls an inline image by: `cid:` and it."""

    filename: str
    content_type: str
    content: bytes = field(repr=False)
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class RenderedMail:
    """A template filled in. version is the digest of the template's files."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)
    version: str


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What stands in an address header: a display name (empty for none) and a plain address."""

    name: str = field(repr=False)
    address: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Addressing:
    """What a mail shows beside the envelope's plain addresses.

    sender is the name in `From`; recipients are the names in `To` and `Cc` by lower-cased address.
    """

    sender: str = field(default="", repr=False)
    recipients: Mapping[str, str] = field(default_factory=dict, repr=False)
    reply_to: Mailbox | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whom the provider is to serve. Never parsed out of a header."""

    sender: str = field(repr=False)
    to: tuple[str, ...] = field(repr=False)
    cc: tuple[str, ...] = field(repr=False)
    bcc: tuple[str, ...] = field(repr=False)

    @property
    def recipients(self) -> tuple[str, ...]:
        """Every address that gets a copy."""
        return (*self.to, *self.cc, *self.bcc)


@dataclass(frozen=True, slots=True)
class OutgoingMail:
    """One call to a provider.

    content is a whole RFC 5322 message; idempotency_key is the message's id (or `id-rN` after the
    N-th operator retry) for providers that keep one.
    """

    message_id: UUID
    attempt: int
    idempotency_key: str
    envelope: Envelope
    content: bytes = field(repr=False)
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took the message and named it.

    is_earlier: it took an earlier attempt's mail, which need not be the one of this attempt.
    """

    provider_message_id: str
    is_earlier: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """This message is refused for good; by the provider, or before it was asked (not is_answer)."""

    code: str
    is_answer: bool = True


@dataclass(frozen=True, slots=True)
class Deferred:
    """This message is refused for now; the attempt counts."""

    code: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing was accepted because nobody was reached; not the message's fault."""

    code: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too fast for the account; not the message's fault."""

    code: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The account or our identity may not send; not the message's fault."""

    code: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call left and no answer came: neither sent nor not sent."""

    code: str


Outcome: TypeAlias = Accepted | Rejected | Deferred | Unreachable | Throttled | Blocked | Unknown


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one ended claim makes of its message; `outbox.record` writes it, fenced by the claim.

    outcome is the word for the attempt's entry (`accepted`, `rejected`, ..., `handed_back`,
    `render_error`); delay is how long a pending message waits. refunded: the claim was not the
    message's fault and does not count. closed_gate: its answer closed the provider's gate.
    """

    claim: Claim
    status: Status
    outcome: str
    code: str | None = None
    failure_reason: FailureReason | None = None
    provider_message_id: str | None = None
    template_version: str | None = None
    delay: timedelta | None = None
    refunded: bool = False
    closed_gate: bool = False
