"""Logs and metrics: JSON lines with ids, numbers in CloudWatch's embedded format.

Nothing here ever gets an address, a token or a parameter: callers pass ids, words and durations.
What others log is held to warnings, whatever level the functions are set to: at DEBUG the SDK logs
the bodies of its requests and answers, which are mails and secrets.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit

from postlease.config import platform_variable
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postlease.model import ClaimedMessage

_SERVICE = platform_variable("POWERTOOLS_SERVICE_NAME") or "postlease"
"""The stack's name, on every line and the one dimension of every metric: stacks that share an
account must not share alarms."""

_NAMESPACE = platform_variable("POWERTOOLS_METRICS_NAMESPACE") or "Postlease"


class _Lines(LambdaPowertoolsFormatter):
    """Powertools' lines. Of attempts there is one for each message, and they are made in haste."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        # What was made last, with what it was made of: one assignment, so never half of another's.
        self._kept: tuple[dict[str, Any], str] = ({}, "")
        self._second: tuple[int, str, str] = (-1, "", "")
        self._started: tuple[tuple[int, str, str, str], str] = ((-1, "", "", ""), "")

    def start(self, level: str, location: str, text: str) -> str:
        """The first keys of a line, without its end; what is said is plain."""
        now = time.time()
        asked = (int(now * 1000), level, location, text)
        started = self._started
        if started[0] != asked:
            self._started = started = asked, self._start(now, level, location, text)
        return started[1]

    def _start(self, now: float, level: str, location: str, text: str) -> str:
        known, kept = self._kept
        if known != self.log_format:
            known = dict(self.log_format)
            others = {
                name: value
                for name, value in known.items()
                if value is not None and name not in _OWN
            }
            kept = f",{_encode(others)[1:-1]}" if others else ""
            self._kept = known, kept
        trace = self._get_latest_trace_id()
        traced = f',"xray_trace_id":{_quoted(trace)}' if trace else ""
        return (
            f'{{"level":"{level}","location":"{location}","message":"{text}",'
            f'"timestamp":"{self._written(now)}"{kept}{traced}'
        )

    def _written(self, now: float) -> str:
        """As Powertools writes a moment; but for the milliseconds it is made once a second."""
        second, before, behind = self._second
        if second != int(now):
            second = int(now)
            moment = datetime.fromtimestamp(second, tz=UTC if self.utc else None).astimezone(
                UTC if self.utc else None
            )
            before, _, behind = moment.isoformat(timespec="milliseconds").rpartition(".")
            behind = behind[3:]
            self._second = second, before, behind
        return f"{before}.{int((now - second) * 1000):03d}{behind}"


_OWN = ("level", "location", "message", "timestamp")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_quoted = json.encoder.encode_basestring_ascii
"""A lone surrogate, which no stream takes, is an escape there."""

_lines = _Lines(use_rfc3339=True)
logger = Logger(service=_SERVICE, logger_formatter=_lines)
metrics = Metrics(namespace=_NAMESPACE, service=_SERVICE)

_plain_logger = logging.getLogger(_SERVICE)
"""The same logger, without what Powertools does around each call."""

_LEVELS = {logging.WARNING: "WARN", logging.ERROR: "ERROR"}

# Lambda's runtime has set the root's level before this module is imported.
logging.getLogger().setLevel(max(logging.getLogger().level, logging.WARNING))

_here = threading.local()

_VALUES_PER_METRIC = 99
"""The embedded format takes a hundred in one line; the hundredth is one that Powertools writes out
by itself, without the line's level."""


def attempt_ended(
    message: ClaimedMessage,
    provider: str,
    outcome: str,
    more: Mapping[str, str | None],
    *,
    warning: bool = False,
) -> None:
    """Log what came of one claim, with whatever of more is not None."""
    level = logging.WARNING if warning else logging.INFO
    if not _plain_logger.isEnabledFor(level):
        return
    claim, token = message.claim, message.token
    line = (
        f"{_lines.start(logging.getLevelName(level), 'attempt_ended', 'attempt ended')},"
        f'"event_id":"{event_id(claim.message_id)}","message_id":"{claim.message_id}",'
        f'"lease_owner":{_quoted(claim.owner)},'
        f'"lease_expires_at":"{_written(message.lease_expires_at)}","attempt":{claim.attempt},'
        + (f'"token_version":{token.version},' if token else "")
        + f'"provider":{_quoted(provider)},"template":{_quoted(message.template)},'
        f'"outcome":{_quoted(outcome)}'
        + "".join([f',"{name}":{_quoted(text)}' for name, text in more.items() if text is not None])
        + "}\n"
    )
    kept = getattr(_here, "lines", None)
    if kept is None:
        _write(line)
    else:
        kept.append(line)
    for handler in _plain_logger.handlers:
        if handler is not logger.registered_handler:
            handler.handle(logging.LogRecord(_SERVICE, level, __file__, 0, line, None, None))


def keep_lines() -> None:
    """From here on the calling thread's lines of attempts wait for `write_kept`."""
    _here.lines = []


def write_kept() -> None:
    """Write what the calling thread kept, in one piece."""
    if _here.lines:
        _write("".join(_here.lines))
        _here.lines.clear()


def _write(text: str) -> None:
    """As the logger's handler does it, without a record. Raises nothing: a log stops no mail."""
    handler = cast("logging.StreamHandler[TextIO]", logger.registered_handler)
    handler.acquire()
    try:
        handler.stream.write(text)
        handler.stream.flush()
    except (OSError, ValueError):  # a pipe without a reader, a stream that was closed
        pass
    finally:
        handler.release()


@functools.lru_cache(maxsize=8)
def _written(moment: datetime) -> str:
    """A claim's messages have one lease, and a zone takes its time."""
    return moment.isoformat()


def emit(
    counts: Mapping[str, float],
    *,
    seconds: Mapping[str, float] | None = None,
    milliseconds: Mapping[str, Sequence[float]] | None = None,
    samples: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Write counts, ages and distributions at once; samples are ones and zeros, for their average.

    Zeros are written too, so that silence means that nobody ran.
    """
    for name, value in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
    for name, value in (seconds or {}).items():
        metrics.add_metric(name=name, unit=MetricUnit.Seconds, value=value)
    _flush()
    _spread(milliseconds or {}, MetricUnit.Milliseconds)
    _spread(samples or {}, MetricUnit.Count)


def _spread(distributions: Mapping[str, Sequence[float]], unit: MetricUnit) -> None:
    for name, values in distributions.items():
        for start in range(0, len(values), _VALUES_PER_METRIC):
            for value in values[start : start + _VALUES_PER_METRIC]:
                metrics.add_metric(name=name, unit=unit, value=value)
            _flush()


def _flush() -> None:
    # Lambda takes a line that names no level, or no moment beside it, for INFO, and drops it where
    # only more is logged: alarms would then see nothing, which looks like nothing to tell.
    if level := _LEVELS.get(logger.log_level):
        metrics.add_metadata("level", level)
        metrics.add_metadata("timestamp", datetime.now(UTC).isoformat(timespec="milliseconds"))
    metrics.flush_metrics()
