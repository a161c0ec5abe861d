"""What a run would do, counted; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease import attachments, outbox, suppression
from postlease.database import translated_errors
from postlease.retention import archiving
from postlease.retention.running import OLD_PENDING
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from postlease.config import RetentionMode
    from postlease.database import Database
    from postlease.retention.running import Rules

# The conditions of the statements that delete. What a message still holds up counts for its token.
REHEARSE: LiteralString = """-- retention.rehearse
SELECT
    (SELECT count(*) FROM postlease.email_messages AS m
     WHERE m.priority = 0 AND m.finished_at IS NOT NULL AND m.redacted_at IS NULL
       AND m.finished_at < now() - %(redact_after)s::interval)::int AS redacted,
    (SELECT count(*) FROM postlease.email_messages AS m
     WHERE m.status IN ('sent', 'failed')
       AND m.finished_at < now() - %(age)s::interval
       AND m.created_at < now() - %(age)s::interval)::int AS messages,
    (SELECT count(*) FROM postlease.attachment_deletions)::int
    + (SELECT count(*) FROM postlease.email_messages AS m
       JOIN postlease.email_attachments AS a ON a.message_id = m.id AND a.owned
       WHERE m.status IN ('sent', 'failed')
         AND m.finished_at < now() - %(age)s::interval
         AND m.created_at < now() - %(age)s::interval)::int AS objects,
    (SELECT count(*) FROM postlease.verification_tokens AS t
     WHERE t.expires_at < now() - interval '30 days'
       AND NOT EXISTS (
        SELECT FROM postlease.email_messages AS m
        WHERE m.token_id = t.id
          AND NOT (m.status IN ('sent', 'failed')
                   AND m.finished_at < now() - %(age)s::interval
                   AND m.created_at < now() - %(age)s::interval)))::int AS tokens,
    (SELECT count(*) FROM postlease.idempotency_keys AS k WHERE k.expires_at < now())::int AS keys,
    (SELECT count(*) FROM postlease.rate_limits AS r
     WHERE r.window_ends_at < now())::int AS windows,
    (SELECT count(*) FROM postlease.suppressions AS s WHERE s.expires_at <= now())::int
    + (SELECT count(*) FROM postlease.bounces AS b
       WHERE b.happened_at <= now() - %(window)s::interval)::int AS list_entries
"""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a run would do with all the time that it needs; see `Retained` for the names.

    complete: uploads and archive were all looked at. mode: where the messages would go.
    """

    mode: RetentionMode
    messages: int
    objects: int
    keys: int
    windows: int
    list_entries: int
    redacted: int
    tokens: int
    orphans: int
    archive_files: int
    old_pending: int
    complete: bool
    dry_run: bool = True


def rehearse(
    database: Database, *, age: timedelta, has_time: Callable[[], bool], rules: Rules
) -> Rehearsal:
    """Count what `run` would remove. Raises UnavailableError when database or storage is away."""
    asked = {
        "age": age,
        "redact_after": rules.redact_after,
        "window": suppression.SOFT_WINDOW,
    }
    with translated_errors():
        row = database.connection().execute(REHEARSE, asked).fetchone()
    if row is None:  # without FROM there is always one row
        raise AssertionError(REHEARSE)
    orphans, after = 0, ""
    complete = False
    while has_time() and not complete:
        page = attachments.sweep_orphans(database.connection(), after=after, is_rehearsal=True)
        orphans += page.found
        complete, after = page.position is None, page.position or ""
    expired, all_seen = _expired(database, rules, has_time)
    old = outbox.old_pending(database.connection(), age=OLD_PENDING)
    rehearsal = Rehearsal(
        rules.mode,
        **row,
        orphans=orphans,
        archive_files=expired,
        old_pending=old,
        complete=complete and all_seen,
    )
    logger.info("rehearsed", extra={"messages": rehearsal.messages, "objects": rehearsal.objects})
    return rehearsal


def _expired(database: Database, rules: Rules, has_time: Callable[[], bool]) -> tuple[int, bool]:
    """How many files of the archive would leave, and whether all were looked at."""
    found = 0
    if rules.mode == "both":
        for _ in archiving.expired(database, age=rules.archived_for):
            if not has_time():
                return found, False
            found += 1
    return found, True
