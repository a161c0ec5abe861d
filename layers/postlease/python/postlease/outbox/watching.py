"""What the API and the metrics may know of messages: states, counts and ages, no address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import FailureReason, Status

EVENT_STATE: LiteralString = """-- outbox.event_state
SELECT m.status, m.failure_reason, m.created_at, m.sent_at, m.finished_at
FROM postlease.email_messages AS m
WHERE m.id = %(id)s AND m.priority = 0
"""

BACKLOG: LiteralString = """-- outbox.backlog
SELECT count(*) FILTER (WHERE m.status = 'pending') AS queued,
       count(*) FILTER (WHERE m.status = 'sending') AS sending,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now())
           AS expired_leases,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now()
                          AND m.dispatched_at IS NOT NULL) AS unknown,
       coalesce(extract(epoch FROM now() - min(m.available_at)
           FILTER (WHERE m.status = 'pending' AND m.available_at <= now())), 0)::float8
           AS oldest_due_seconds
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
"""


BACKLOG_BY_CLASS: LiteralString = """-- outbox.backlog_by_class
SELECT m.priority,
       count(*) FILTER (WHERE m.status = 'pending') AS pending,
       count(*) FILTER (WHERE m.status = 'sending') AS sending,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now()
                          AND m.dispatched_at IS NOT NULL) AS unknown,
       coalesce(extract(epoch FROM now() - min(m.available_at)
           FILTER (WHERE m.status = 'pending' AND m.available_at <= now())), 0)::float8
           AS oldest_due_seconds
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
GROUP BY m.priority
"""

# By the index of what is old: the whole history would take longer than a statement may.
FINISHED_LATELY: LiteralString = """-- outbox.finished_lately
SELECT m.failure_reason, count(*) AS found
FROM postlease.email_messages AS m
WHERE m.created_at > now() - %(window)s::interval
  AND m.finished_at IS NOT NULL
GROUP BY m.failure_reason
"""


@dataclass(frozen=True, slots=True)
class EventState:
    """The state of a message that the auth API made."""

    message_id: UUID
    status: Status
    failure_reason: FailureReason | None
    created_at: datetime
    sent_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unfinished messages at one moment. oldest_due_seconds is 0 when nothing is due."""

    queued: int
    sending: int
    expired_leases: int
    unknown: int
    oldest_due_seconds: float

    def counts(self) -> dict[str, float]:
        """The counts by metric name."""
        return {
            "Queued": self.queued,
            "Sending": self.sending,
            "ExpiredLeases": self.expired_leases,
            "UnknownNow": self.unknown,
        }


@dataclass(frozen=True, slots=True)
class ClassBacklog:
    """Unfinished messages of one class at one moment."""

    priority: int
    pending: int = 0
    sending: int = 0
    unknown: int = 0
    oldest_due_seconds: float = 0.0


def event_state(connection: Connection, message_id: UUID) -> EventState | None:
    """The state of an auth message, or None: unknown, purged, or another producer's."""
    with translated_errors():
        row = connection.execute(EVENT_STATE, {"id": message_id}).fetchone()
    return EventState(message_id, **row) if row else None


def backlog(connection: Connection) -> Backlog:
    """Count what is unfinished, by the index of the unfinished alone."""
    with translated_errors():
        row = connection.execute(BACKLOG).fetchone()
    if row is None:  # an aggregate answers one row
        raise AssertionError(BACKLOG)
    return Backlog(**row)


def backlog_by_class(connection: Connection) -> list[ClassBacklog]:
    """Count what is unfinished in each class that has any."""
    with translated_errors():
        return [ClassBacklog(**row) for row in connection.execute(BACKLOG_BY_CLASS)]


def finished_lately(
    connection: Connection, *, window: timedelta
) -> dict[FailureReason | None, int]:
    """How the messages ended that were made within window: sent under None, failed by reason."""
    with translated_errors():
        rows = connection.execute(FINISHED_LATELY, {"window": window})
        return {row["failure_reason"]: row["found"] for row in rows}
