"""The scheduled sweep: send what is due, then look once a second until the time is nearly up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from postlease import gate, outbox, telemetry
from postlease.config import settings
from postlease.delivery import Connections, Times, deliver

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Answer what was done, by word. Nothing of the event matters: the queue says what is due."""
    del event
    started = time.monotonic()
    connections = Connections.kept()
    tally = deliver(
        SETTINGS,
        Times(
            invocation_ends_at=started + context.get_remaining_time_in_millis() / 1000,
            linger_until=started + SETTINGS.times.sweep_linger.total_seconds(),
        ),
        worker=context.log_stream_name,
        connections=connections,
    )
    connection = connections.claims.connection()
    backlog = outbox.backlog(connection)
    paused = gate.look(connection, SETTINGS.mail_provider).closed
    telemetry.emit(
        tally.metrics() | backlog.counts() | {"GatePaused": int(paused), "SweepHeartbeat": 1},
        seconds={"OldestDueSeconds": backlog.oldest_due_seconds},
        milliseconds=tally.distributions(),
        samples=tally.samples(),
    )
    return dict(tally.counts)
