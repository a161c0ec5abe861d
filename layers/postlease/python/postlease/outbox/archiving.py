"""Finished messages leave for an archive: chosen, read, and gone once they lie elsewhere.

A chunk is a durable choice of messages. Between its choice and its end anything may happen to one
of them (an operator's retry, a late event, redaction): only what is as it was read leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from postlease.database import Connection

OPEN_CHUNK: LiteralString = """-- outbox.open_chunk
SELECT c.id, c.message_ids, c.created_at
FROM postlease.archive_chunks AS c
ORDER BY c.id
LIMIT 1
"""

CHOOSE_CHUNK: LiteralString = """-- outbox.choose_chunk
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.status IN ('sent', 'failed')
      AND m.finished_at < now() - %(age)s::interval
      AND m.created_at < now() - %(age)s::interval
    ORDER BY m.id
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
)
INSERT INTO postlease.archive_chunks (message_ids)
SELECT array_agg(old.id ORDER BY old.id)
FROM old
HAVING count(*) > 0
RETURNING id, message_ids, created_at
"""

READ_CHUNK: LiteralString = """-- outbox.read_chunk
SELECT m.id, m.xmin::text AS version,
       jsonb_build_object(
           'message', to_jsonb(m),
           'attachments', coalesce((
               SELECT jsonb_agg(to_jsonb(a) - 'owned' ORDER BY a.position)
               FROM postlease.email_attachments AS a
               WHERE a.message_id = m.id), '[]'))::text AS line
FROM postlease.email_messages AS m
WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.status IN ('sent', 'failed')
  AND m.finished_at < now() - %(age)s::interval
ORDER BY m.id
"""

# A row's xmin is another one after whatever change.
PURGE_CHUNK: LiteralString = """-- outbox.purge_chunk
WITH kept AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    JOIN unnest(%(ids)s::uuid[], %(versions)s::text[]) AS r (id, version) ON r.id = m.id
    WHERE m.xmin::text = r.version
      AND m.status IN ('sent', 'failed')
    ORDER BY m.id
    FOR UPDATE OF m
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN kept ON kept.id = a.message_id
    WHERE a.owned
)
DELETE FROM postlease.email_messages AS m
USING kept
WHERE m.id = kept.id
"""

CLOSE_CHUNK: LiteralString = """-- outbox.close_chunk
DELETE FROM postlease.archive_chunks AS c WHERE c.id = %(id)s
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages that leave for one file. is_resumed: somebody began before and did not end."""

    id: UUID
    message_ids: list[UUID]
    created_at: datetime
    is_resumed: bool = False


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """One message of a chunk as it was read: version tells whether it still is so.

    line: the row and its attachments, as JSON; it holds addresses and is not printed.
    """

    id: UUID
    version: str
    line: str = field(repr=False)


def next_chunk(connection: Connection, *, age: timedelta, chunk: int) -> Chunk | None:
    """The chunk that was not ended, else a new one of up to chunk messages; None if none is due.

    Finished longer than age ago, as for `purge`. Does not commit by itself.
    """
    with translated_errors():
        if row := connection.execute(OPEN_CHUNK).fetchone():
            return Chunk(**row, is_resumed=True)
        row = connection.execute(CHOOSE_CHUNK, {"age": age, "chunk": chunk}).fetchone()
    return Chunk(**row) if row else None


def read_chunk(connection: Connection, chunk: Chunk, *, age: timedelta) -> list[ReadMessage]:
    """The messages of chunk that are still finished and old, in the order of their ids."""
    with translated_errors():
        rows = connection.execute(READ_CHUNK, {"ids": chunk.message_ids, "age": age})
        return [ReadMessage(**row) for row in rows]


def purge_chunk(connection: Connection, chunk: Chunk, messages: Sequence[ReadMessage]) -> int:
    """Delete those of messages that are as they were read, and end chunk; answers how many.

    Fewer than messages: somebody changed one; roll back and read anew. -1: another run has ended
    the chunk; nothing was changed. Does not commit by itself.
    """
    read = {"ids": [one.id for one in messages], "versions": [one.version for one in messages]}
    with translated_errors():
        if not connection.execute(CLOSE_CHUNK, {"id": chunk.id}).rowcount:
            return -1
        return connection.execute(PURGE_CHUNK, read).rowcount
