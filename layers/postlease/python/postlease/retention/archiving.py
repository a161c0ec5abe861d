"""A chunk of old messages becomes a file of the archive, then leaves the database.

In this order, so that a crash at any point loses nothing and doubles nothing: the choice of the
chunk is committed; file and manifest are written, and are durable when the storage has answered;
the rows leave, and the choice with them, in one transaction. Whoever finds a choice writes its file
once more under the same name and deletes what the run before left there.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, LiteralString

from postlease import outbox
from postlease.database import translated_errors
from postlease.retention import files
from postlease.retention.duties import LostError, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from postlease.database import Connection, Database
    from postlease.outbox import Chunk, ReadMessage
    from postlease.retention.duties import Lease

# By the database's clock, as everything else.
LAST_DAY: LiteralString = """-- retention.last_day
SELECT to_char(now() AT TIME ZONE 'UTC' - %(age)s::interval, 'YYYY-MM-DD') AS day
"""

_TRIES = 3
"""How often a chunk is read anew because somebody changed one of its messages meanwhile."""


class _ChangedError(Exception):
    """A message is no longer what was written: the rows stay, the file is written anew."""


def archive(database: Database, lease: Lease, *, age: timedelta, chunk: int) -> int | None:
    """Move up to chunk messages that finished longer than age ago into one file; how many left.

    None: another run holds lock or lease, or somebody changed the messages again and again; what is
    chosen stays chosen. lease is the archive's. Call it outside of a transaction. Raises
    UnavailableError when database or storage is away.
    """
    while lease.take():
        chosen = locked(database, lambda connection: (_choose(connection, age, chunk),))
        if chosen is None:
            return None
        if chosen[0] is None:
            return 0
        try:
            moved = _move(database, lease, chosen[0], age)
        except LostError:
            return None
        # None is left of a chunk whose messages were all retried: there may be another.
        if moved != 0:
            return moved
    return None


def _choose(connection: Connection, age: timedelta, chunk: int) -> Chunk | None:
    return outbox.next_chunk(connection, age=age, chunk=chunk)


def _move(database: Database, lease: Lease, chunk: Chunk, age: timedelta) -> int | None:
    for attempt in range(_TRIES):
        messages = outbox.read_chunk(database.connection(), chunk, age=age)
        # Behind the reading: who has lost the lease may have read what another had purged.
        lease.hold()
        _write(chunk, messages, lease, is_first=not (attempt or chunk.is_resumed))
        try:
            return locked(database, _purging(lease, chunk, messages))
        except _ChangedError:
            continue
    return None


def _write(chunk: Chunk, messages: list[ReadMessage], lease: Lease, *, is_first: bool) -> None:
    name = files.name_of(chunk)
    if not messages:  # all were sent once more
        files.clean(name, lease=lease)
        return
    ids, lines = [str(one.id) for one in messages], [one.line for one in messages]
    written = files.write(name, ids, lines)
    if not is_first:
        files.clean(name, written.file, written.manifest, lease=lease)


def _purging(
    lease: Lease, chunk: Chunk, messages: list[ReadMessage]
) -> Callable[[Connection], int]:
    def purge(connection: Connection) -> int:
        lease.hold(connection)
        gone = outbox.purge_chunk(connection, chunk, messages)
        if 0 <= gone < len(messages):
            raise _ChangedError
        return max(gone, 0)

    return purge


def expire(
    database: Database, lease: Lease, *, age: timedelta, has_time: Callable[[], bool]
) -> tuple[int, bool]:
    """Delete the archive's files of days longer than age ago: how many, and whether those were all.

    Files that the storage refuses to delete stay for the next run. lease is the archive's.
    """
    deleted = refused = 0
    for name in expired(database, age=age):
        if not (has_time() and lease.take()):
            return deleted, False
        try:
            stays = files.clean(name, lease=lease).refused
        except LostError:
            return deleted, False
        deleted += not stays
        refused += bool(stays)
    return deleted, not refused


def expired(database: Database, *, age: timedelta) -> Iterator[str]:
    """The archive's files of days longer than age ago, in order."""
    with translated_errors():
        row = database.connection().execute(LAST_DAY, {"age": age}).fetchone()
    last = files.PREFIX + str(row["day"] if row else "")
    return itertools.takewhile(lambda name: name < last, files.names(""))
