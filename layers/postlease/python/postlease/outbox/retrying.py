"""What failed is sent once more, by an operator's word: one message, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from postlease.database import translated_errors
from postlease.outbox.dispatching import TOKEN_LIFE_LEFT
from postlease.outbox.finding import FOUND

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection
    from postlease.outbox.finding import Wanted

RetryWord: TypeAlias = Literal["retried", "not_failed", "redacted", "superseded", "expired"]

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

# Whoever takes a place in a scope takes its lock first (`postlease.enqueue_for`), and so does who
# gives one back: else neither would see the other's message, and both would stay.
HOLD_SCOPE: LiteralString = """-- outbox.hold_scope
SELECT pg_advisory_xact_lock(
    hashtextextended(jsonb_build_array(m.producer, m.cancel_scope)::text, 0))
FROM postlease.email_messages AS m
WHERE m.id = %(id)s AND m.cancel_scope IS NOT NULL
"""

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

# Their rows are locked first, so that no other change of them comes between; then their scopes, in
# the order in which `postlease.enqueue_for` takes several.
_HOLD_MANY: LiteralString = """-- outbox.hold_many
WITH wanted AS MATERIALIZED (
    SELECT m.id, m.producer, m.cancel_scope"""
_ORDERED_WITH_SCOPES: LiteralString = """ORDER BY m.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE
), held AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(l.key)
    FROM (
        SELECT DISTINCT
            hashtextextended(jsonb_build_array(w.producer, w.cancel_scope)::text, 0) AS key
        FROM wanted AS w
        WHERE w.cancel_scope IS NOT NULL
        ORDER BY key) AS l
)
SELECT w.id FROM wanted AS w WHERE (SELECT count(*) FROM held) >= 0
"""
HOLD_MANY: LiteralString = _HOLD_MANY + _RETRIABLE + _ORDERED_WITH_SCOPES

_RETRY_MANY: LiteralString = """-- outbox.retry_many
UPDATE postlease.email_messages AS m
"""
RETRY_MANY: LiteralString = (
    _RETRY_MANY
    + _AGAIN
    + """WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.status = 'failed'
  AND NOT """
    + _REPLACED
    + "\n"
)


def retry(connection: Connection, message_id: UUID) -> RetryWord | None:
    """Make a failed message pending again, with all its attempts and a key of its own.

    Only `retried` changed something; any other word says what stands against it; None: no such
    message. Does not commit inside a caller's transaction.
    """
    parameters = {"id": message_id, "token_life_left": TOKEN_LIFE_LEFT}
    with translated_errors(), connection.transaction():
        # A statement of its own: the next one sees what was committed while this one waited.
        connection.execute(HOLD_SCOPE, parameters)
        row = connection.execute(RETRY, parameters).fetchone()
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
    with translated_errors(), connection.transaction():
        held = [row["id"] for row in connection.execute(HOLD_MANY, parameters)]
        # What came into a scope while this one waited is seen by a statement of its own.
        return connection.execute(RETRY_MANY, {"ids": held}).rowcount
