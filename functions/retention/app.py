"""Retention, at a quiet hour: old finished messages and their own S3 objects leave, in chunks.

By hand, and then synchronously: what waits for an asynchronous invocation ends in a queue when it
fails, and an address has no business there.

    {"dry_run": true}                     what a run would do
    {"erase": "ada@example.com"}          a person's request, repeated until it is complete
    {"erase": …, "after": "rows:…"}       from where the answer before ended
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from postlease import addresses, database, retention, telemetry
from postlease.config import settings
from postlease.errors import InvalidInputError
from postlease.retention import Rules, end, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()
STOP_BEFORE_END_MS = 15_000
RULES = Rules(SETTINGS.retention_mode, SETTINGS.redact_after, archived_for=SETTINGS.archived_for)


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer what was removed, and whether anything was left for the next run."""

    def has_time() -> bool:
        return context.get_remaining_time_in_millis() > STOP_BEFORE_END_MS

    kept = database.application("retention")
    if "erase" in event:
        return asdict(_erase(kept, event, has_time))
    if "dry_run" in event:
        return asdict(_rehearse(kept, event, has_time))
    retained = run(kept, age=SETTINGS.retention, has_time=has_time, rules=RULES)
    if retained.complete:
        end(kept.connection())
    telemetry.emit(
        {
            "PurgedMessages": retained.messages,
            "PurgedObjects": retained.objects + retained.orphans,
            "ArchivedMessages": retained.archived,
            "RedactedMessages": retained.redacted,
            "PurgedOthers": retained.tokens
            + retained.keys
            + retained.windows
            + retained.list_entries
            + retained.archive_files,
            "RetentionUnfinished": int(not retained.complete),
            "OldPending": retained.old_pending,
            "RetentionHeartbeat": 1,
        }
    )
    return asdict(retained)


def _erase(
    kept: database.Database, event: dict[str, Any], has_time: Callable[[], bool]
) -> retention.Erasure:
    asked, after = event["erase"], event.get("after")
    if event.keys() - {"erase", "after"} or not isinstance(asked, str):
        raise InvalidInputError("/erase", "is one address, with nothing but after beside it")
    if not isinstance(after, str | None):
        raise InvalidInputError("/after", "is none that an erasure answered")
    address = addresses.parse(asked, pointer="/erase").canonical
    return retention.erase(kept, address, has_time=has_time, after=after)


def _rehearse(
    kept: database.Database, event: dict[str, Any], has_time: Callable[[], bool]
) -> retention.Rehearsal:
    # Whoever writes anything else means a rehearsal all the same, and gets no run.
    if event != {"dry_run": True}:
        raise InvalidInputError("/dry_run", "must be true, with nothing beside it")
    return retention.rehearse(kept, age=SETTINGS.retention, has_time=has_time, rules=RULES)
