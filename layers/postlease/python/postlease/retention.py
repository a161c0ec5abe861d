"""What is old leaves: finished messages with the objects they owned, spent keys and windows, and
what the suppression list no longer needs.

In chunks, each a transaction of its own under one lock, so that a run can stop anywhere and the
next one goes on. Nothing pending or sending is ever touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease import attachments, outbox, suppression
from postlease.database import translated_errors
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from postlease.database import Connection, Database

CHUNK = 500
"""Rows of one transaction: short enough that nobody waits for it."""

# Any number that is ours: one retention run at a time in a database.
_LOCK = 0x7265746E6E

LOCK: LiteralString = """-- retention.lock
SELECT pg_try_advisory_xact_lock(%(key)s) AS held
"""

PURGE_KEYS: LiteralString = """-- retention.purge_keys
DELETE FROM postlease.idempotency_keys AS k
WHERE k.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.idempotency_keys AS old
    WHERE old.expires_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))
"""

PURGE_WINDOWS: LiteralString = """-- retention.purge_windows
DELETE FROM postlease.rate_limits AS r
WHERE r.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.rate_limits AS old
    WHERE old.window_ends_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))
"""


@dataclass(frozen=True, slots=True)
class Retained:
    """What one run removed. complete: nothing that was due is left, neither row nor object.

    list_entries: suppressions that ended, and bounces that no longer count.
    """

    messages: int
    objects: int
    keys: int
    windows: int
    complete: bool
    list_entries: int = 0


def run(
    database: Database, *, age: timedelta, has_time: Callable[[], bool], chunk: int = CHUNK
) -> Retained:
    """Remove what finished longer than age ago, chunk by chunk, for as long as has_time says.

    Another run that holds the lock makes this one leave the rows to it, which is not an error.
    Raises UnavailableError when database or storage is away; what was committed stays, and objects
    whose messages are gone are noted until they are gone too.
    """
    rooms: dict[str, Callable[[Connection], int]] = {
        "messages": lambda connection: outbox.purge(connection, age=age, chunk=chunk),
        "keys": lambda connection: _delete(connection, PURGE_KEYS, chunk),
        "windows": lambda connection: _delete(connection, PURGE_WINDOWS, chunk),
        "list_entries": lambda connection: suppression.purge(connection, chunk=chunk),
    }
    removed = dict.fromkeys(rooms, 0)
    complete = True
    for room, purge in rooms.items():
        removed[room], complete = _empty(database, room, purge, has_time)
        if not complete:
            # Going on would take the lock between two chunks of the other run, and end that too.
            break
    removed["objects"], emptied = _delete_objects(database, has_time)
    return Retained(**removed, complete=complete and emptied)


def _empty(
    database: Database,
    room: str,
    purge: Callable[[Connection], int],
    has_time: Callable[[], bool],
) -> tuple[int, bool]:
    """How many rows left, and whether those were all."""
    removed = 0
    while has_time():
        gone = _locked(database, purge)
        if not gone:
            return removed, gone is not None
        removed += gone
        logger.info("purged", extra={"what": room, "rows": gone, "rows_so_far": removed})
    return removed, False


def _delete_objects(database: Database, has_time: Callable[[], bool]) -> tuple[int, bool]:
    """How many objects are no more, and whether those were all."""
    removed = refused = after = 0
    while has_time():
        batch = attachments.delete_noted(database.connection(), after=after)
        if batch.last is None:
            return removed, not refused
        after = batch.last
        removed += batch.objects
        refused += batch.refused
        logger.info(
            "purged", extra={"what": "objects", "rows": batch.objects, "rows_so_far": removed}
        )
        if batch.refused:
            logger.warning("objects refused", extra={"objects": batch.refused})
    return removed, False


def _locked(database: Database, purge: Callable[[Connection], int]) -> int | None:
    """What purge answered; None when another run holds the lock."""
    with database.transaction() as connection:
        row = connection.execute(LOCK, {"key": _LOCK}).fetchone()
        return purge(connection) if row and row["held"] else None


def _delete(connection: Connection, statement: LiteralString, chunk: int) -> int:
    with translated_errors():
        return connection.execute(statement, {"chunk": chunk}).rowcount
