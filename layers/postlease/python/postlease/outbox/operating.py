"""What an operator decides: messages resolved, cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from postlease.database import Connection

RESOLVED_BY_OPERATOR = "operator"
"""What stands for a provider's id where an operator knows that a mail was sent."""

ResolveWord: TypeAlias = Literal["resolved", "still_open", "not_unknown"]
CancelWord: TypeAlias = Literal["cancelled", "not_pending"]

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
