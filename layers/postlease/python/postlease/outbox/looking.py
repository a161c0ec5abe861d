"""What waits to be claimed, whatever keeps it from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection
    from postlease.outbox.claiming import Room

SUSPECTS_DUE: LiteralString = """-- outbox.suspects_due
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.reaped_count > 0
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS due
"""


# Any class: among those that a run has no room for, the one that waits longest.
HELD_UP: LiteralString = """-- outbox.held_up
SELECT m.id, m.attachment_bytes
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
  AND m.attachment_bytes > %(room)s
  AND m.status = 'pending'
  AND m.available_at <= now()
  AND m.reaped_count = 0
ORDER BY m.available_at, m.id
LIMIT 1
"""

WAITING: LiteralString = """-- outbox.waiting
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS waiting
"""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A message that waits for room, and the bytes of its attachments."""

    message_id: UUID
    size: int


def held_up(connection: Connection, room: Room) -> HeldUp | None:
    """What waits longest of all that is due and larger than room, whatever its class."""
    with translated_errors():
        row = connection.execute(HELD_UP, {"room": room.bytes}).fetchone()
    return HeldUp(row["id"], row["attachment_bytes"]) if row else None


def suspects_due(connection: Connection) -> bool:
    """Whether a message waits that a lost worker held before."""
    with translated_errors():
        row = connection.execute(SUSPECTS_DUE).fetchone()
    return bool(row and row["due"])


def waiting(connection: Connection) -> bool:
    """Whether any message is due, whatever keeps it from being claimed."""
    with translated_errors():
        row = connection.execute(WAITING).fetchone()
    return bool(row and row["waiting"])
