"""What an operator sees: messages searched, found, looked into.

Rows hold addresses; whoever shows them masks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.database import Connection
    from postlease.model import DeliveryPolicy, FailureReason, Status

_FIRST_ID = UUID(int=0)
_BEYOND_LAST_ID = UUID(int=(1 << 128) - 1)

_COLUMNS: LiteralString = """
SELECT m.id, m.template, m.locale, m.status, m.failure_reason, m.priority, m.delivery,
       m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
           AS is_unknown,
       m.attempt_count, m.refunded_count, m.retry_count, m.provider, m.provider_message_id,
       m.to_addresses, m.cc_addresses, m.bcc_addresses,
       m.created_at, m.available_at, m.expires_at, m.lease_expires_at, m.sent_at, m.finished_at
"""

FOUND: LiteralString = """
FROM postlease.email_messages AS m
WHERE m.id >= %(lowest_id)s
  AND m.id < %(below)s
  AND m.created_at >= %(created_from)s::timestamptz
  AND m.created_at < %(created_before)s::timestamptz
  AND (%(status)s::text IS NULL OR m.status = %(status)s)
  AND (%(reason)s::text IS NULL OR m.failure_reason = %(reason)s)
  AND (%(template)s::text IS NULL OR m.template = %(template)s)
"""

_NEWEST_FIRST: LiteralString = """
ORDER BY m.id DESC
LIMIT %(limit)s
"""

_SEARCH: LiteralString = """-- outbox.search
"""
SEARCH: LiteralString = _SEARCH + _COLUMNS + FOUND + _NEWEST_FIRST

# By the index of the unfinished alone: history may be long.
_SEARCH_UNFINISHED: LiteralString = """-- outbox.search_unfinished
"""
SEARCH_UNFINISHED: LiteralString = (
    _SEARCH_UNFINISHED
    + _COLUMNS
    + FOUND
    + """  AND m.finished_at IS NULL
  AND (NOT %(unknown)s OR m.status = 'sending'
       AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now())
"""
    + _NEWEST_FIRST
)

_FIND: LiteralString = """-- outbox.find
"""
_IN_FULL: LiteralString = """, m.attempts, m.lease_owner, m.claimed_at, m.dispatched_at,
       m.max_attempts, m.template_version, m.redacted_at,
       m.tags, m.cancel_scope, m.from_address, m.reply_to,
       m.recipient_names,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object(
               'position', a.position, 'content_type', a.content_type, 'size', a.size,
               'filename', a.filename) ORDER BY a.position)
           FROM postlease.email_attachments AS a WHERE a.message_id = m.id), '[]') AS attachments
FROM postlease.email_messages AS m
WHERE m.id = %(id)s
"""
FIND: LiteralString = _FIND + _COLUMNS + _IN_FULL


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are looked for; None asks for any.

    unknown: only those that are unknown at this moment. created_from is inclusive, created_before
    and below (an id) are not.
    """

    status: Status | None = None
    reason: FailureReason | None = None
    template: str | None = None
    unknown: bool = False
    created_from: datetime | None = None
    created_before: datetime | None = None
    below: UUID | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether no finished message can be meant."""
        return self.unknown or self.status in {"pending", "sending"}

    def parameters(self) -> dict[str, object]:
        """Its part of a search's parameters."""
        return {
            "status": self.status,
            "reason": self.reason,
            "template": self.template,
            "created_from": self.created_from or "-infinity",
            "created_before": self.created_before or "infinity",
            "lowest_id": _lowest_id(self.created_from) if self.created_from else _FIRST_ID,
            "below": self.below or _BEYOND_LAST_ID,
        }


@dataclass(frozen=True, slots=True)
class MessageState:
    """A message as an operator may see it. What `find` alone reads is empty after a search."""

    id: UUID
    template: str
    locale: str
    status: Status
    failure_reason: FailureReason | None
    is_unknown: bool
    priority: int
    delivery: DeliveryPolicy
    attempt_count: int
    refunded_count: int
    retry_count: int
    provider: str | None
    provider_message_id: str | None
    created_at: datetime
    available_at: datetime
    expires_at: datetime | None
    lease_expires_at: datetime | None
    sent_at: datetime | None
    finished_at: datetime | None
    to_addresses: list[str] = field(repr=False)
    cc_addresses: list[str] = field(repr=False)
    bcc_addresses: list[str] = field(repr=False)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    lease_owner: str | None = None
    claimed_at: datetime | None = None
    dispatched_at: datetime | None = None
    max_attempts: int | None = None
    template_version: str | None = None
    redacted_at: datetime | None = None
    tags: dict[str, str] = field(default_factory=dict)
    cancel_scope: str | None = None
    from_address: str | None = field(default=None, repr=False)
    reply_to: str | None = field(default=None, repr=False)
    recipient_names: dict[str, str] = field(default_factory=dict, repr=False)
    attachments: list[dict[str, Any]] = field(default_factory=list, repr=False)


def search(connection: Connection, wanted: Wanted, *, limit: int) -> list[MessageState]:
    """The newest limit messages that are wanted, newest first."""
    parameters = {**wanted.parameters(), "limit": limit}
    statement = SEARCH
    if wanted.is_unfinished:
        statement = SEARCH_UNFINISHED
        parameters["unknown"] = wanted.unknown
    with translated_errors():
        return [MessageState(**row) for row in connection.execute(statement, parameters)]


def find(connection: Connection, message_id: UUID) -> MessageState | None:
    """One message with its attempts, or None."""
    with translated_errors():
        row = connection.execute(FIND, {"id": message_id}).fetchone()
    return MessageState(**row) if row else None


def _lowest_id(created_from: datetime) -> UUID:
    """Below it lies no id of a message made at that time or later.

    An id begins with its birth in milliseconds (RFC 9562, 5.7), which is never before created_at;
    a minute is for clocks that were set.
    """
    milliseconds = int(created_from.timestamp() * 1000) - 60_000
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)
