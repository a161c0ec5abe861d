"""The doorbell: after a commit, the ids of new auth mail go to whoever can send it at once.

SQS never holds the truth. A ring that is lost, late or doubled costs nothing: the sweep finds the
mail anyway, and whoever hears a ring claims the message before sending it. A ring is an event id,
and nothing else.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from postlease import telemetry
from postlease.config import settings
from postlease.model import event_id, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from types_boto3_sqs.client import SQSClient

BATCH = 10
"""What one SendMessageBatch takes."""

CONNECT_TIMEOUT_SECONDS = 0.3
READ_TIMEOUT_SECONDS = 0.5

# A client may be shared between threads, but not made in two at once.
_making = threading.Lock()


@functools.cache
def _sqs() -> SQSClient:
    # boto3 costs 300 ms of import: only a function that rings pays.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client(
        "sqs",
        config=Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            retries={"total_max_attempts": 1},
        ),
    )


def ring(ids: Sequence[UUID]) -> None:
    """Tell of committed messages, once; where no queue is configured, tell nobody.

    More than BATCH ids are left to the sweep. Call it outside of a transaction. Never raises: what
    goes wrong is counted (DoorbellFailed) and logged, and takes no longer than both timeouts.
    """
    url = settings().doorbell_queue_url
    if url is None or not ids:
        return
    told = ids[:BATCH]
    try:
        failed = _send(url, told)
    except Exception as error:  # noqa: BLE001 - the mail is committed; nothing may undo the answer
        failed = len(told)
        telemetry.logger.warning("the doorbell failed", extra={"reason": type(error).__name__})
    telemetry.emit({"DoorbellRung": len(told) - failed, "DoorbellFailed": failed})


def _send(url: str, ids: Sequence[UUID]) -> int:
    """How many of ids the queue did not take."""
    with _making:
        sqs = _sqs()
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": str(place), "MessageBody": event_id(message_id)}
            for place, message_id in enumerate(ids)
        ],
    )
    refused = answer.get("Failed", [])
    for entry in refused:
        telemetry.logger.warning("the doorbell failed", extra={"reason": entry["Code"]})
    return len(refused)


def heard(body: object) -> UUID | None:
    """The id that a ring names, or None for anything that `ring` would not have sent."""
    return parse_event_id(body) if isinstance(body, str) else None
