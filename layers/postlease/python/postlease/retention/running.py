"""A run of retention: one duty after the other, in chunks, for as long as there is time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import attachments, outbox, suppression
from postlease.retention import archiving, duties, spending
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.config import RetentionMode
    from postlease.database import Connection, Database

CHUNK = 500
"""Rows of one transaction, and of one file: short enough that nobody waits for it."""

OLD_PENDING = timedelta(days=1)
"""Whoever could be claimed for so long waits for a person: counted, never deleted."""

# Neither rows left nor none: another run is at it.
_ELSEWHERE = (0, False)


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes of what is old.

    mode: messages leave (`delete`), or leave for the archive (`archive`), or leave for it and leave
    that too, archived_for later (`both`). redact_after: since auth mail finished.
    """

    mode: RetentionMode = "delete"
    redact_after: timedelta = timedelta(days=7)
    archived_for: timedelta = timedelta(days=3_650)


@dataclass(frozen=True, slots=True)
class Retained:
    """What one run removed. complete: nothing that was due is left, neither row nor object.

    list_entries: suppressions that ended, and bounces that no longer count. redacted: auth mails
    that lost their parameters and addresses. orphans: uploads that no message took. archived:
    of messages, those that are in the archive now; archive_files: of the archive, those that left.
    old_pending: messages that could have been claimed a day ago, and were not.
    """

    messages: int
    objects: int
    keys: int
    windows: int
    complete: bool
    list_entries: int = 0
    redacted: int = 0
    tokens: int = 0
    orphans: int = 0
    archived: int = 0
    archive_files: int = 0
    old_pending: int = 0


def run(
    database: Database,
    *,
    age: timedelta,
    has_time: Callable[[], bool],
    chunk: int = CHUNK,
    rules: Rules | None = None,
) -> Retained:
    """Remove what finished longer than age ago, chunk by chunk, for as long as has_time says.

    Another run that holds the lock makes this one leave the rows to it, which is not an error.
    Raises UnavailableError when database or storage is away; what was committed stays, and objects
    whose messages are gone are noted until they are gone too.
    """
    rules = rules or Rules()
    removed, complete = _rows(database, age, has_time, chunk, rules)
    removed["objects"], emptied = _delete_objects(database, has_time)
    removed["orphans"], swept = _sweep_orphans(database, has_time)
    expired = True
    if rules.mode == "both":
        removed["archive_files"], expired = _expire(database, rules, has_time)
    old = outbox.old_pending(database.connection(), age=OLD_PENDING)
    if old:
        logger.warning("old pending", extra={"messages": old})
    whole = complete and emptied and swept and expired
    return Retained(**removed, complete=whole, old_pending=old)


def _rows(
    database: Database,
    age: timedelta,
    has_time: Callable[[], bool],
    chunk: int,
    rules: Rules,
) -> tuple[dict[str, int], bool]:
    """How many rows left each room, and whether those were all."""
    lease = duties.Lease(database, "archive")

    def in_lock(purge: Callable[[Connection], int]) -> Callable[[], int | None]:
        return lambda: duties.locked(database, purge)

    def into_the_archive() -> int | None:
        return archiving.archive(database, lease, age=age, chunk=chunk)

    archives = rules.mode != "delete"
    rooms: dict[str, Callable[[], int | None]] = {
        # Before they leave: the archive is to hold no more than the table would.
        "redacted": in_lock(lambda one: outbox.redact(one, age=rules.redact_after, chunk=chunk)),
        # What no storage can keep from leaving.
        "keys": in_lock(lambda one: spending.purge_keys(one, chunk=chunk)),
        "windows": in_lock(lambda one: spending.purge_windows(one, chunk=chunk)),
        "list_entries": in_lock(lambda one: suppression.purge(one, chunk=chunk)),
        "messages": into_the_archive
        if archives
        else in_lock(lambda one: outbox.purge(one, age=age, chunk=chunk)),
        # Behind the messages that carry them.
        "tokens": in_lock(lambda one: spending.purge_tokens(one, chunk=chunk)),
    }
    removed = dict.fromkeys(rooms, 0)
    complete = True
    for room, purge in rooms.items():
        removed[room], complete = _empty(room, purge, has_time)
        if not complete:
            # Going on would take the lock between two chunks of the other run, and end that too.
            break
    if archives:
        removed["archived"] = removed["messages"]
        lease.give_back()
    return removed, complete


def _empty(
    room: str, purge: Callable[[], int | None], has_time: Callable[[], bool]
) -> tuple[int, bool]:
    """How many rows left, and whether those were all."""
    removed = 0
    while has_time():
        gone = purge()
        if not gone:
            return removed, gone is not None
        removed += gone
        _tell(room, gone, removed)
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
        _tell("objects", batch.objects, removed)
        if batch.refused:
            logger.warning("objects refused", extra={"objects": batch.refused})
    return removed, False


def _sweep_orphans(database: Database, has_time: Callable[[], bool]) -> tuple[int, bool]:
    """How many uploads are no more that nobody took, and whether all were looked at.

    A run that did not see all of them leaves its place to the next.
    """
    removed = refused = 0
    after = duties.position(database.connection(), "orphans")
    while has_time():
        page = attachments.sweep_orphans(database.connection(), after=after)
        removed += page.found
        refused += page.refused
        if page.found:
            _tell("orphans", page.found, removed)
        if page.refused:
            logger.warning("objects refused", extra={"objects": page.refused})
        position = page.position or ""
        if position != after:
            duties.move(database.connection(), "orphans", position)
        if page.position is None:
            return removed, not refused
        after = position
    return removed, False


def _expire(database: Database, rules: Rules, has_time: Callable[[], bool]) -> tuple[int, bool]:
    """How many files of the archive are no more, and whether those were all."""
    lease = duties.Lease(database, "archive")
    if not has_time() or not lease.take():
        return _ELSEWHERE
    deleted, complete = archiving.expire(database, lease, age=rules.archived_for, has_time=has_time)
    lease.give_back()
    if deleted:
        _tell("archive_files", deleted, deleted)
    return deleted, complete


def _tell(what: str, rows: int, so_far: int) -> None:
    logger.info("purged", extra={"what": what, "rows": rows, "rows_so_far": so_far})
