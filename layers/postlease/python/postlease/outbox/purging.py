"""Finished messages leave; what they owned in S3 is noted for deletion in the same transaction.

What waits far too long never leaves here: `old_pending` tells of it, as the metric OldPending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.database import Connection

# A message is created before it finishes, so the condition on created_at loses none and lets the
# block-range index find the old pages.
PURGE: LiteralString = """-- outbox.purge
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.status IN ('sent', 'failed')
      AND m.finished_at < now() - %(age)s::interval
      AND m.created_at < now() - %(age)s::interval
    ORDER BY m.id
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN old ON old.id = a.message_id
    WHERE a.owned
)
DELETE FROM postlease.email_messages AS m
USING old
WHERE m.id = old.id
"""

OLD_PENDING: LiteralString = """-- outbox.old_pending
SELECT count(*) AS found
FROM postlease.email_messages AS m
WHERE m.finished_at IS NULL
  AND m.status = 'pending'
  AND m.available_at < now() - %(age)s::interval
"""


def purge(connection: Connection, *, age: timedelta, chunk: int) -> int:
    """Delete up to chunk messages that finished longer than age ago; answers how many.

    Never touches a pending or sending message, however old. Does not commit by itself.
    """
    with translated_errors():
        return connection.execute(PURGE, {"age": age, "chunk": chunk}).rowcount


def old_pending(connection: Connection, *, age: timedelta) -> int:
    """How many messages could have been claimed longer than age ago, and were not."""
    with translated_errors():
        row = connection.execute(OLD_PENDING, {"age": age}).fetchone()
    return int(row["found"]) if row else 0
