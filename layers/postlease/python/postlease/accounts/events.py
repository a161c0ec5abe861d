"""What became of a mail, for whoever knows its event id. No address, no account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias, assert_never

from postlease import outbox
from postlease.config import settings
from postlease.errors import MalformedInputError
from postlease.model import event_id, parse_event_id

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.database import Database
    from postlease.outbox import EventState

PublicStatus: TypeAlias = Literal["queued", "sending", "sent", "expired", "failed"]

_STALE = ("expired", "superseded", "cancelled")

# A version 7 id begins with its birth in milliseconds (RFC 9562, 5.7).
IS_PAST_RETENTION: LiteralString = """-- accounts.is_past_retention
SELECT to_timestamp(%(milliseconds)s::float8 / 1000) < now() - %(retention)s AS is_past
"""


@dataclass(frozen=True, slots=True)
class Event:
    """The truth about one mail, in public words."""

    event_id: str
    status: PublicStatus
    created_at: datetime
    sent_at: datetime | None
    finished_at: datetime | None


Absence: TypeAlias = Literal["unknown", "purged"]


def event_status(database: Database, wire_id: str) -> Event | Absence:
    """The event behind its wire form; writes nothing.

    `purged`: it may have existed, but is older than what is kept. Only mail made by this package's
    own flows is an event. Raises MalformedInputError for a text that is no event id.
    """
    message_id = parse_event_id(wire_id)
    if message_id is None:
        raise MalformedInputError(
            "event_id", "must be `evt_` and 26 characters of Crockford base32"
        )
    with database.transaction() as connection:
        if state := outbox.event_state(connection, message_id):
            return Event(
                event_id=event_id(state.message_id),
                status=public_status(state),
                created_at=state.created_at,
                sent_at=state.sent_at,
                finished_at=state.finished_at,
            )
        birth = {"milliseconds": message_id.int >> 80, "retention": settings().retention}
        row = connection.execute(IS_PAST_RETENTION, birth).fetchone()
    return "purged" if row and row["is_past"] else "unknown"


def public_status(state: EventState) -> PublicStatus:
    """The word that the API shows. An unknown outcome is still being settled: `sending`."""
    match state.status:
        case "pending":
            return "queued"
        case "sending":
            return "sending"
        case "sent":
            return "sent"
        case "failed":
            return "expired" if state.failure_reason in _STALE else "failed"
        case _:
            assert_never(state.status)
