"""Logs and metrics: JSON lines with ids, numbers in CloudWatch's embedded format.

Nothing here ever gets an address, a token or a parameter: callers pass ids, words and durations.
What others log is held to warnings, whatever level the functions are set to: at DEBUG the SDK logs
the bodies of its requests and answers, which are mails and secrets.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit

from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postlease.model import ClaimedMessage

_SERVICE = "postlease"


class _Lines(LambdaPowertoolsFormatter):
    """Powertools' lines. Of attempts there is one for each message, and they are made in haste."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON; the same keys in the same order either way."""
        fields = record.__dict__.get(_FIELDS)
        if fields is None:
            return super().format(record)
        line = {name: value for name, value in self.log_format.items() if value is not None}
        line["level"] = record.levelname
        line["location"] = record.funcName
        line["message"] = record.msg
        line["timestamp"] = self.formatTime(record)
        line |= fields
        if trace := self._get_latest_trace_id():
            line["xray_trace_id"] = trace
        return _encode(line)


_FIELDS = "fields_of_attempt"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

logger = Logger(service=_SERVICE, logger_formatter=_Lines(use_rfc3339=True))
metrics = Metrics(namespace="Postlease", service=_SERVICE)

_plain_logger = logging.getLogger(_SERVICE)
"""The same logger, without what Powertools does around each call."""

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


def attempt_ended(
    message: ClaimedMessage,
    provider: str,
    outcome: str,
    more: Mapping[str, object],
    *,
    warning: bool = False,
) -> None:
    """Log what came of one claim, with whatever of more is not None."""
    level = logging.WARNING if warning else logging.INFO
    if not _plain_logger.isEnabledFor(level):
        return
    fields = {**message_fields(message, provider), "outcome": outcome, **more}
    record = logging.LogRecord(
        _SERVICE, level, __file__, 0, "attempt ended", None, None, "attempt_ended"
    )
    record.__dict__[_FIELDS] = {name: value for name, value in fields.items() if value is not None}
    _plain_logger.handle(record)


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
    metrics.flush_metrics()
    for name, values in (milliseconds or {}).items():
        for start in range(0, len(values), _VALUES_PER_METRIC):
            for value in values[start : start + _VALUES_PER_METRIC]:
                metrics.add_metric(name=name, unit=MetricUnit.Milliseconds, value=value)
            metrics.flush_metrics()
