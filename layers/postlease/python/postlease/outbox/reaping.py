"""Leases that ended without a record, and messages that waited past their time.

One guarded statement a rule. What a worker, another reaper or a claim holds locked is skipped: it
is alive, and the next run comes in a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors
from postlease.outbox.dispatching import KEY_LIFETIME

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.database import Connection

LOST_WORKERS_LIMIT = 3
"""A message whose sender was lost this often before dispatch is what kills its senders."""

REAP_UNDISPATCHED: LiteralString = """-- outbox.reap_undispatched
WITH lost AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NULL
      AND m.lease_expires_at < now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN 'failed' ELSE 'pending' END,
    failure_reason = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN 'worker_lost' END,
    finished_at = CASE WHEN m.reaped_count + 1 >= %(limit)s THEN now() END,
    attempts = postlease.attempts_with(m, 'worker_lost', NULL, NULL, true),
    refunded_count = m.refunded_count + 1,
    reaped_count = m.reaped_count + 1,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM lost
WHERE m.id = lost.id
RETURNING m.status
"""

# The call may have left, so only the message's policy can say what an unknown outcome means.
REAP_DISPATCHED: LiteralString = """-- outbox.reap_dispatched
WITH unknown AS MATERIALIZED (
    SELECT m.id,
           m.delivery = 'at_least_once'
           AND m.unknown_count = 0
           AND m.attempt_count - m.refunded_count < coalesce(m.max_attempts, %(max_attempts)s)
               AS once_more
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NOT NULL
      AND m.lease_expires_at + %(grace)s::interval < now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = CASE WHEN unknown.once_more THEN 'pending' ELSE 'failed' END,
    failure_reason = CASE WHEN NOT unknown.once_more THEN 'outcome_unknown' END,
    finished_at = CASE WHEN NOT unknown.once_more THEN now() END,
    attempts = postlease.attempts_with(m, 'unknown', NULL, NULL, false),
    unknown_count = m.unknown_count + 1,
    dispatched_at = CASE WHEN NOT unknown.once_more THEN m.dispatched_at END,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM unknown
WHERE m.id = unknown.id
RETURNING m.status
"""

# A provider that keeps keys tells what became of the first call when it is asked again.
REAP_KEYED: LiteralString = """-- outbox.reap_keyed
WITH unknown AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'sending'
      AND m.dispatched_at IS NOT NULL
      AND m.provider = %(provider)s
      AND m.lease_expires_at < now()
      AND coalesce(m.keyed_since, m.dispatched_at) > now() - %(key_lifetime)s::interval
      AND m.attempt_count - m.refunded_count < coalesce(m.max_attempts, %(max_attempts)s)
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = 'pending',
    attempts = postlease.attempts_with(m, 'unknown', 'asked_again', NULL, false),
    keyed_since = coalesce(m.keyed_since, m.dispatched_at),
    dispatched_at = NULL,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM unknown
WHERE m.id = unknown.id
RETURNING m.status
"""

EXPIRE_WAITING: LiteralString = """-- outbox.expire_waiting
WITH late AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'pending'
      AND m.expires_at <= now()
    ORDER BY m.id
    LIMIT %(batch)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'expired', finished_at = now()
FROM late
WHERE m.id = late.id
RETURNING m.status
"""


@dataclass(frozen=True, slots=True)
class Reaped:
    """How many messages one statement gave back, and how many it ended."""

    returned: int
    failed: int

    @property
    def total(self) -> int:
        """All messages that were changed."""
        return self.returned + self.failed

    def __add__(self, other: Reaped) -> Reaped:
        """Both together."""
        return Reaped(self.returned + other.returned, self.failed + other.failed)


def reap_undispatched(connection: Connection, *, batch: int) -> Reaped:
    """Give back, refunded, what a lost worker held and never dispatched; the third time ends it."""
    parameters = {"batch": batch, "limit": LOST_WORKERS_LIMIT}
    with translated_errors():
        return _counted(connection.execute(REAP_UNDISPATCHED, parameters).fetchall())


def reap_dispatched(
    connection: Connection, *, batch: int, grace: timedelta, max_attempts: int
) -> Reaped:
    """Settle by policy what may have left and was not heard of for grace after its lease.

    `at_least_once` becomes pending once; `at_most_once`, a second unknown and used-up attempts
    become failed(outcome_unknown).
    """
    parameters = {"batch": batch, "grace": grace, "max_attempts": max_attempts}
    with translated_errors():
        return _counted(connection.execute(REAP_DISPATCHED, parameters).fetchall())


def reap_keyed(connection: Connection, *, provider: str, batch: int, max_attempts: int) -> Reaped:
    """Let provider be asked again, under the same key, about a call that it never answered.

    Only for a provider that keeps keys, and only while it keeps this one; no grace is needed,
    because two calls under one key are one mail.
    """
    parameters = {
        "provider": provider,
        "batch": batch,
        "max_attempts": max_attempts,
        "key_lifetime": KEY_LIFETIME,
    }
    with translated_errors():
        return _counted(connection.execute(REAP_KEYED, parameters).fetchall())


def expire_waiting(connection: Connection, *, batch: int) -> Reaped:
    """End pending messages whose time is over: failed(expired), never sent."""
    with translated_errors():
        return _counted(connection.execute(EXPIRE_WAITING, {"batch": batch}).fetchall())


def _counted(rows: list[dict[str, str]]) -> Reaped:
    failed = sum(row["status"] == "failed" for row in rows)
    return Reaped(returned=len(rows) - failed, failed=failed)
