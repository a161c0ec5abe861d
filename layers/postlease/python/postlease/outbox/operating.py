"""What an operator decides: messages retried, resolved, cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from postlease.database import translated_errors
from postlease.outbox.dispatching import TOKEN_LIFE_LEFT
from postlease.outbox.finding import FOUND

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from postlease.database import Connection
    from postlease.outbox.finding import Wanted

RESOLVED_BY_OPERATOR = "operator"
"""What stands for a provider's id where an operator knows that a mail was sent."""

RetryWord: TypeAlias = Literal["retried", "not_failed", "redacted", "superseded", "expired"]
ResolveWord: TypeAlias = Literal["resolved", "still_open", "not_unknown"]
CancelWord: TypeAlias = Literal["cancelled", "not_pending"]

# The key of the provider changes with retry_count, so that this is a new mail there. What an
# earlier attempt turned out to be can still be told by the provider's own event.
_AGAIN: LiteralString = """    SET status = 'pending',
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
"""

# A later one of its scope took its place, whatever became of either: its reader has the newer mail,
# or shall have none. Of one batch the ids have no order, but the last alone was not superseded.
# Two questions, because the unfinished and the finished stand in an index each.
_LATER: LiteralString = """EXISTS (
      SELECT FROM postlease.email_messages AS n
      WHERE n.producer = m.producer AND n.cancel_scope = m.cancel_scope AND n.id > m.id
        AND n.finished_at IS """
_REPLACED: LiteralString = (
    "("
    + _LATER
    + "NULL) OR "
    + _LATER
    + "NOT NULL AND n.failure_reason IS DISTINCT FROM 'superseded'))"
)

_RETRY: LiteralString = """-- outbox.retry
WITH held AS MATERIALIZED (
    SELECT m.id, CASE
        WHEN m.status <> 'failed' THEN 'not_failed'
        WHEN m.redacted_at IS NOT NULL THEN 'redacted'
        WHEN m.failure_reason = 'superseded' THEN 'superseded'
        WHEN """
_RETRY_JUDGED: LiteralString = """ THEN 'superseded'
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
"""
RETRY: LiteralString = (
    _RETRY
    + _REPLACED
    + _RETRY_JUDGED
    + _AGAIN
    + """    FROM held
    WHERE m.id = held.id AND held.word = 'retried'
)
SELECT held.word FROM held
"""
)

# Whose retry the single one would refuse is not among them.
_RETRIABLE: LiteralString = (
    FOUND
    + """  AND m.status = 'failed'
  AND m.redacted_at IS NULL
  AND m.failure_reason <> 'superseded'
  AND (m.expires_at IS NULL OR m.expires_at > now())
  AND NOT EXISTS (
      SELECT FROM postlease.verification_tokens AS t
      WHERE t.id = m.token_id
        AND (t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL
             OR t.expires_at <= now() + %(token_life_left)s::interval))
  AND NOT """
    + _REPLACED
    + "\n"
)

_COUNT_RETRIABLE: LiteralString = """-- outbox.count_retriable
SELECT count(*) AS found"""
COUNT_RETRIABLE: LiteralString = _COUNT_RETRIABLE + _RETRIABLE

_RETRY_MANY: LiteralString = """-- outbox.retry_many
WITH held AS MATERIALIZED (
    SELECT m.id"""
RETRY_MANY: LiteralString = (
    _RETRY_MANY
    + _RETRIABLE
    + """ORDER BY m.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
"""
    + _AGAIN
    + """FROM held
WHERE m.id = held.id
"""
)

# Whoever claimed it first sends it: one that is being sent cannot be called back.
CANCEL: LiteralString = """-- outbox.cancel
WITH held AS MATERIALIZED (
    SELECT m.id, CASE WHEN m.status = 'pending' THEN 'cancelled' ELSE 'not_pending' END AS word
    FROM postlease.email_messages AS m
    WHERE m.id = %(id)s
    FOR NO KEY UPDATE
), cancelled AS (
    UPDATE postlease.email_messages AS m
    SET status = 'failed', failure_reason = 'cancelled', finished_at = now()
    FROM held
    WHERE m.id = held.id AND held.word = 'cancelled'
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


def cancel(connection: Connection, message_id: UUID) -> CancelWord | None:
    """End a pending message as `cancelled`.

    `not_pending` changed nothing: it is being sent, or it ended; None: no such message. Does not
    commit inside a caller's transaction.
    """
    with translated_errors():
        row = connection.execute(CANCEL, {"id": message_id}).fetchone()
    return row["word"] if row else None


def count_retriable(connection: Connection, wanted: Wanted) -> int:
    """How many of the wanted messages `retry_many` would make pending."""
    parameters = {**wanted.parameters(), "token_life_left": TOKEN_LIFE_LEFT}
    with translated_errors():
        row = connection.execute(COUNT_RETRIABLE, parameters).fetchone()
    return int(row["found"]) if row else 0


def retry_many(connection: Connection, wanted: Wanted, *, limit: int) -> int:
    """Do to the first limit of the wanted messages what `retry` does to one; how many they were.

    What `retry` would refuse is left alone. Does not commit inside a caller's transaction.
    """
    parameters = {**wanted.parameters(), "token_life_left": TOKEN_LIFE_LEFT, "limit": limit}
    with translated_errors():
        return connection.execute(RETRY_MANY, parameters).rowcount
