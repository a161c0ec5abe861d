"""Retention, at a quiet hour: old finished messages and their own S3 objects leave, in chunks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from postlease import database, retention, telemetry
from postlease.config import settings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()
STOP_BEFORE_END_MS = 15_000


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer what was removed, and whether anything was left for the next run."""
    del event
    retained = retention.run(
        database.application("retention"),
        age=SETTINGS.retention,
        has_time=lambda: context.get_remaining_time_in_millis() > STOP_BEFORE_END_MS,
    )
    telemetry.emit({"PurgedMessages": retained.messages, "PurgedObjects": retained.objects})
    return asdict(retained)
