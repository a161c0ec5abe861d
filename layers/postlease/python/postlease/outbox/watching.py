"""What the API and the metrics may know of messages: states, counts and ages, no address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import datetime
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
