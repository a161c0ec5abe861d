"""The doorbell: send at once the messages that a queue names, and no others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from postlease import doorbell, telemetry
from postlease.config import settings
from postlease.delivery import Connections, Times, deliver_named

if TYPE_CHECKING:
    from uuid import UUID

    from aws_lambda_powertools.utilities.typing import LambdaContext

SETTINGS = settings()


@telemetry.logger.inject_lambda_context(clear_state=True, log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Answer the rings that nobody could look at, for the queue to repeat; all others are done.

    Done is also what is no ring, what is sent already, what somebody else has and what the provider
    refused: the ledger knows, and the sweep goes on from there.
    """
    started = time.monotonic()
    rings = event["Records"]
    named: dict[str, UUID] = {}
    for ring in rings:
        message_id = doorbell.heard(ring["body"])
        if message_id is None:
            ids = {"queue_message_id": ring["messageId"]}
            telemetry.logger.warning("not a ring of ours", extra=ids)
        else:
            named[ring["messageId"]] = message_id
    tally = deliver_named(
        SETTINGS,
        Times(
            invocation_ends_at=started + context.get_remaining_time_in_millis() / 1000,
            linger_until=started,
        ),
        list(named.values()),
        worker=context.log_stream_name,
        connections=Connections.kept(),
    )
    telemetry.emit(
        tally.metrics()
        | {
            "DoorbellHeard": len(rings),
            "DoorbellMalformed": len(rings) - len(named),
            "DoorbellUnseen": len(tally.unseen),
        },
        milliseconds=tally.distributions(),
        samples=tally.samples(),
    )
    return {
        "batchItemFailures": [
            {"itemIdentifier": queue_message_id}
            for queue_message_id, message_id in named.items()
            if message_id in tally.unseen
        ]
    }
