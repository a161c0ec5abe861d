"""What an operator sees and decides: messages found, retried, resolved.

Rows hold addresses; whoever shows them masks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, LiteralString, TypeAlias
from uuid import UUID

from postlease.database import translated_errors
from postlease.outbox.dispatching import TOKEN_LIFE_LEFT

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from postlease.database import Connection
    from postlease.model import DeliveryPolicy, FailureReason, Status

RESOLVED_BY_OPERATOR = "operator"
"""What stands for a provider's id where an operator knows that a mail was sent."""

RetryWord: TypeAlias = Literal["retried", "not_failed", "redacted", "superseded", "expired"]
ResolveWord: TypeAlias = Literal["resolved", "still_open", "not_unknown"]

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

_FOUND: LiteralString = """
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
SEARCH: LiteralString = _SEARCH + _COLUMNS + _FOUND + _NEWEST_FIRST

# By the index of the unfinished alone: history may be long.
_SEARCH_UNFINISHED: LiteralString = """-- outbox.search_unfinished
"""
SEARCH_UNFINISHED: LiteralString = (
    _SEARCH_UNFINISHED
    + _COLUMNS
    + _FOUND
    + """  AND m.finished_at IS NULL
  AND (NOT %(unknown)s OR m.status = 'sending'
       AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now())
"""
    + _NEWEST_FIRST
)

_FIND: LiteralString = """-- outbox.find
"""
FIND: LiteralString = (
    _FIND
    + _COLUMNS
    + """, m.attempts
FROM postlease.email_messages AS m
WHERE m.id = %(id)s
"""
)

# The key of the provider changes with retry_count, so that this is a new mail there. What an
# earlier attempt turned out to be can still be told by the provider's own event.
RETRY: LiteralString = """-- outbox.retry
WITH held AS MATERIALIZED (
    SELECT m.id, CASE
        WHEN m.status <> 'failed' THEN 'not_failed'
        WHEN m.redacted_at IS NOT NULL THEN 'redacted'
        WHEN m.failure_reason = 'superseded' THEN 'superseded'
        WHEN t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL THEN 'superseded'
        WHEN m.expires_at <= now() THEN 'expired'
        WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'
        ELSE 'retried'
    END AS word
    FROM postlease.email_messages AS m
    LEFT JOIN postlease.verification_tokens AS t ON t.id = m.token_id
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE OF m
), retried AS (
    UPDATE postlease.email_messages AS m
    SET status = 'pending',
        failure_reason = NULL,
        retry_count = m.retry_count + 1,
        refunded_count = m.attempt_count,
        unknown_count = 0,
        reaped_count = 0,
        blocked_at = NULL,
        blocked_as = NULL,
        keyed_since = NULL,
        dispatched_at = NULL,
        available_at = now(),
        finished_at = NULL
    FROM held
    WHERE m.id = held.id AND held.word = 'retried'
)
SELECT held.word FROM held
"""

# Whoever was sending it finds the claim lost, or its late acceptance recorded. Resolved as failed
# it keeps its reason, or gets `outcome_unknown`: nobody but the provider knows better, and an event
# still counts. An attempt that nobody answered is settled whatever came after it; the entry of the
# newest one names the owner that made the call, as an event's does.
# Nobody is told "failed" while the caller may still be alive: its acceptance would come too late to
# be recorded, and whoever retried the message by then would have sent it twice.
RESOLVE: LiteralString = """-- outbox.resolve
WITH held AS MATERIALIZED (
    SELECT m.id, CASE
        WHEN m.status = 'sending' AND m.dispatched_at IS NOT NULL AND m.lease_expires_at < now()
            THEN CASE WHEN %(as_sent)s OR m.lease_expires_at + %(grace)s::interval < now()
                THEN 'resolved' ELSE 'still_open' END
        WHEN m.status = 'failed' AND m.attempts @> '[{"outcome": "unknown"}]' THEN 'resolved'
        ELSE 'not_unknown'
    END AS word,
    jsonb_path_query_array(m.attempts, '$[*] ? (@.outcome == "unknown")') -> -1 AS newest_unknown
    FROM postlease.email_messages AS m
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE
), resolved AS (
    UPDATE postlease.email_messages AS m
    SET status = CASE WHEN %(as_sent)s THEN 'sent' ELSE 'failed' END,
        failure_reason = CASE
            WHEN NOT %(as_sent)s THEN coalesce(m.failure_reason, 'outcome_unknown') END,
        attempts = CASE
            WHEN m.status = 'sending' AND %(as_sent)s
                THEN postlease.attempts_with(m, 'accepted', 'operator', %(sent_as)s, false)
            WHEN m.status = 'sending'
                THEN postlease.attempts_with(m, 'unknown', 'operator', NULL, false)
            WHEN %(as_sent)s
                THEN postlease.attempts_kept(m.attempts) || (
                    held.newest_unknown || jsonb_build_object(
                        'outcome', 'accepted', 'code', 'operator', 'ended_at', now(),
                        'provider_message_id', %(sent_as)s::text))
            ELSE m.attempts END,
        dispatched_at = CASE WHEN m.status = 'failed' AND %(as_sent)s
            THEN (held.newest_unknown ->> 'dispatched_at')::timestamptz ELSE m.dispatched_at END,
        provider = CASE WHEN m.status = 'failed' AND %(as_sent)s
            THEN held.newest_unknown ->> 'provider' ELSE m.provider END,
        unknown_count = m.unknown_count + CASE m.status WHEN 'sending' THEN 1 ELSE 0 END,
        provider_message_id = CASE WHEN %(as_sent)s THEN %(sent_as)s END,
        keyed_since = NULL,
        sent_at = CASE WHEN %(as_sent)s THEN now() END,
        finished_at = coalesce(m.finished_at, now()),
        lease_owner = NULL,
        claimed_at = NULL,
        lease_expires_at = NULL
    FROM held
    WHERE m.id = held.id AND held.word = 'resolved'
)
SELECT held.word FROM held
"""


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
    """A message as an operator may see it. attempts is empty where it was not asked for."""

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


def retry(connection: Connection, message_id: UUID) -> RetryWord | None:
    """Make a failed message pending again, with all its attempts and a key of its own.

    Only `retried` changed something; any other word says what stands against it; None: no such
    message. Does not commit inside a caller's transaction.
    """
    parameters = {"id": message_id, "token_life_left": TOKEN_LIFE_LEFT}
    with translated_errors():
        row = connection.execute(RETRY, parameters).fetchone()
    return row["word"] if row else None


def resolve(
    connection: Connection, message_id: UUID, *, as_sent: bool, grace: timedelta
) -> ResolveWord | None:
    """End an unknown message by an operator's word: `sent`, or `failed`.

    Unknown is one that was dispatched and whose lease is over, or that failed, for whatever reason,
    with an unknown attempt among its attempts. Failed, it has the reason that it had, or
    `outcome_unknown`. `still_open`: it can be told `sent` now, but `failed` only when grace has
    passed since its lease's end. That and `not_unknown` changed nothing; None: no such message.
    Does not commit inside a caller's transaction.
    """
    parameters = {
        "id": message_id,
        "as_sent": as_sent,
        "grace": grace,
        "sent_as": RESOLVED_BY_OPERATOR,
    }
    with translated_errors():
        row = connection.execute(RESOLVE, parameters).fetchone()
    return row["word"] if row else None


def _lowest_id(created_from: datetime) -> UUID:
    """Below it lies no id of a message made at that time or later.

    An id begins with its birth in milliseconds (RFC 9562, 5.7), which is never before created_at;
    a minute is for clocks that were set.
    """
    milliseconds = int(created_from.timestamp() * 1000) - 60_000
    return UUID(int=min(max(milliseconds, 0), (1 << 48) - 1) << 80)
