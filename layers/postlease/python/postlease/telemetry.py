"""Logs and metrics: JSON lines with ids, numbers in CloudWatch's embedded format.

Nothing here ever gets an address, a token or a parameter: callers pass ids, words and durations.
What others log is held to warnings, whatever level the functions are set to: at DEBUG the SDK logs
the bodies of its requests and answers, which are mails and secrets.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postlease.model import ClaimedMessage

logger = Logger(service="postlease", use_rfc3339=True)
metrics = Metrics(namespace="Postlease", service="postlease")

_LEVELS = {logging.WARNING: "WARN", logging.ERROR: "ERROR"}

# Lambda's runtime has set the root's level before this module is imported.
logging.getLogger().setLevel(max(logging.getLogger().level, logging.WARNING))

_VALUES_PER_METRIC = 100
"""The embedded format takes so many values of one metric in one line."""


def message_fields(message: ClaimedMessage, provider: str) -> dict[str, object]:
    """What every log line about a claimed message carries."""
    return {
        "event_id": event_id(message.claim.message_id),
        "message_id": str(message.claim.message_id),
        "lease_owner": message.claim.owner,
        "lease_expires_at": message.lease_expires_at.isoformat(),
        "attempt": message.claim.attempt,
        "token_version": message.token.version if message.token else None,
        "provider": provider,
        "template": message.template,
    }


def emit(
    counts: Mapping[str, float],
    *,
    seconds: Mapping[str, float] | None = None,
    milliseconds: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Write counts, ages and distributions at once.

    Zeros are written too, so that silence means that nobody ran.
    """
    for name, value in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
    for name, value in (seconds or {}).items():
        metrics.add_metric(name=name, unit=MetricUnit.Seconds, value=value)
    _flush()
    for name, values in (milliseconds or {}).items():
        for start in range(0, len(values), _VALUES_PER_METRIC):
            for value in values[start : start + _VALUES_PER_METRIC]:
                metrics.add_metric(name=name, unit=MetricUnit.Milliseconds, value=value)
            _flush()


def _flush() -> None:
    # Lambda takes a line that names no level, or no moment beside it, for INFO, and drops it where
    # only more is logged: alarms would then see nothing, which looks like nothing to tell.
    if level := _LEVELS.get(logger.log_level):
        metrics.add_metadata("level", level)
        metrics.add_metadata("timestamp", datetime.now(UTC).isoformat(timespec="milliseconds"))
    metrics.flush_metrics()
