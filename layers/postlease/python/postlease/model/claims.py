"""A claimed message: who holds it, and all that delivery needs of it."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from postlease.model.values import value

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from postlease.model.words import DeliveryPolicy, Purpose


@value
class TokenFacts:
    """The token that a message carries, as the claim found it; enough to derive the link again."""

    id: UUID
    user_id: UUID
    purpose: Purpose
    version: int
    key_id: str
    token_hash: bytes = field(repr=False)


@value
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


@value
class Claim:
    """Who holds a lease: all three must still match for anything to change."""

    message_id: UUID
    owner: str
    attempt: int


@value
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
