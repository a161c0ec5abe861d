"""The reaper: what dead workers held comes back, or is settled by its policy; the late expires."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from postlease import database, gate, outbox, providers, telemetry
from postlease.config import settings
from postlease.retention import seconds_since_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()
PROVIDER = providers.choose(SETTINGS)
BATCH = 200
STOP_BEFORE_END_MS = 5_000


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Apply the rules until nothing is left or the time is nearly up; answer the counts."""
    del event
    connection = database.application("reaper").connection()
    rules: dict[str, Callable[[], outbox.Reaped]] = {
        "undispatched": partial(outbox.reap_undispatched, connection, batch=BATCH),
        # Before the policy: whoever can be asked is asked.
        "keyed": partial(
            outbox.reap_keyed,
            connection,
            provider=PROVIDER.name,
            batch=BATCH,
            max_attempts=SETTINGS.max_attempts,
        ),
        "unknown": partial(
            outbox.reap_dispatched,
            connection,
            batch=BATCH,
            grace=SETTINGS.times.unknown_grace,
            max_attempts=SETTINGS.max_attempts,
        ),
        "late": partial(outbox.expire_waiting, connection, batch=BATCH),
    }
    done = {name: outbox.Reaped(0, 0) for name in rules}
    if not PROVIDER.keeps_keys:
        del rules["keyed"]
    for name, rule in rules.items():
        while context.get_remaining_time_in_millis() > STOP_BEFORE_END_MS:
            batch = rule()
            done[name] += batch
            if batch.total < BATCH:
                break
    backlog = outbox.backlog(connection)
    # Once more than the sweep tells it: it may be the sweep that has stopped.
    paused = gate.look(connection, PROVIDER.name).closed
    telemetry.emit(
        backlog.counts()
        | {
            "WorkerLost": done["undispatched"].total,
            "UnknownAskedAgain": done["keyed"].returned,
            "UnknownSettled": done["unknown"].total,
            "Expired": done["late"].failed,
            "Failed": sum(reaped.failed for reaped in done.values()),
            "FailedWorkerLost": done["undispatched"].failed,
            "FailedUnknown": done["unknown"].failed,
            "GatePaused": int(paused),
            "ReaperHeartbeat": 1,
        },
        seconds={
            "OldestDueSeconds": backlog.oldest_due_seconds,
            "RetentionEndedSecondsAgo": seconds_since_end(connection),
        },
    )
    counts = {
        "worker_lost_returned": done["undispatched"].returned,
        "worker_lost_failed": done["undispatched"].failed,
        "unknown_asked_again": done["keyed"].returned,
        "unknown_returned": done["unknown"].returned,
        "unknown_failed": done["unknown"].failed,
        "expired": done["late"].failed,
    }
    telemetry.logger.info("reaped", extra=counts)
    return counts
