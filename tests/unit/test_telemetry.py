"""What the functions' own logger says, and who else is heard beside it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from local.stack import ROOT
from postlease.model import Claim, ClaimedMessage, event_id
from postlease.telemetry import attempt_ended, keep_lines, logger, write_kept
from tests.metrics import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.model import TokenFacts

LEVELS = """
import logging
import sys

logging.basicConfig(level=sys.argv[1])  # as Lambda's runtime does it, by LogLevel
import postlease.telemetry

for name in ("", "botocore.endpoint", "urllib3.connectionpool"):
    print(logging.getLevelName(logging.getLogger(name).getEffectiveLevel()))
print(logging.getLevelName(postlease.telemetry.logger.log_level))
"""


def said(script: str, level: str, **variables: str) -> str:
    """What a function of that log level writes."""
    ran = subprocess.run(
        [sys.executable, "-c", script, level],
        env={
            **variables,
            "AWS_LAMBDA_LOG_LEVEL": level,
            "PYTHONPATH": str(ROOT / "layers" / "postlease" / "python"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


METRICS = """
from postlease import telemetry

telemetry.emit({"GatePaused": 1}, seconds={"OldestDueSeconds": 2.5}, milliseconds={"Wait": [1.0]})
"""


@pytest.mark.parametrize(("asked", "named"), [("INFO", None), ("WARN", "WARN"), ("ERROR", "ERROR")])
def test_metrics_are_written_whatever_level_is_asked_for(asked: str, named: str | None) -> None:
    """Lambda drops a line below the level, and takes one for INFO that names neither of the two."""
    lines = [json.loads(line) for line in said(METRICS, asked).splitlines()]
    assert all(line["_aws"]["CloudWatchMetrics"] for line in lines)
    assert [line.get("level") for line in lines] == [named] * 2
    for line in lines if named else []:
        assert datetime.fromisoformat(line["timestamp"]).tzinfo is not None


MANY = """
import warnings

from postlease import telemetry

warnings.simplefilter("error")  # a flush that finds nothing left warns
telemetry.emit({"Sent": 350}, milliseconds={"Wait": [1.0] * 100}, samples={"Wrong": [1.0] * 250})
"""


def test_of_many_values_every_line_names_its_level_and_none_is_lost() -> None:
    """At a hundred the library writes the line by itself, and knows nothing of levels."""
    lines = [json.loads(line) for line in said(MANY, "WARN").splitlines()]
    assert {line.get("level") for line in lines} == {"WARN"}
    assert sum(len(line.get("Wait", ())) for line in lines) == 100
    assert sum(len(line.get("Wrong", ())) for line in lines) == 250


NAMED = """
from postlease import telemetry

telemetry.logger.info("a line")
"""


@pytest.mark.parametrize(
    ("variables", "service", "namespace"),
    [
        ({}, "postlease", "Postlease"),
        ({"POWERTOOLS_SERVICE_NAME": "mail-eu"}, "mail-eu", "Postlease"),
        ({"POWERTOOLS_METRICS_NAMESPACE": "Mail"}, "postlease", "Mail"),
    ],
)
def test_lines_and_metrics_are_of_the_service_that_the_environment_names(
    variables: dict[str, str], service: str, namespace: str
) -> None:
    """Two stacks of one account have metrics and alarms of their own."""
    line, *emitted = said(NAMED + METRICS, "INFO", **variables).splitlines()
    assert json.loads(line)["service"] == service
    for one in read("\n".join(emitted)):
        assert (one.namespace, one.dimensions) == (namespace, (("service", service),))


@pytest.mark.parametrize(
    ("asked", "of_others"), [("DEBUG", "WARNING"), ("INFO", "WARNING"), ("ERROR", "ERROR")]
)
def test_others_are_heard_from_warnings_on_whatever_level_is_asked_for(
    asked: str, of_others: str
) -> None:
    """At DEBUG the SDK would log secrets and mails."""
    assert said(LEVELS, asked).split() == [of_others] * 3 + [asked]


def a_message(*, owner: str = 'worker "1"#a', token: TokenFacts | None = None) -> ClaimedMessage:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return ClaimedMessage(
        claim=Claim(UUID(int=7), owner, 2),
        priority=0,
        available_at=moment,
        created_at=moment,
        lease_expires_at=moment,
        template="receipt",
        locale="en",
        delivery="at_least_once",
        attempts_left=3,
        counted_attempts=2,
        retry_count=0,
        parameters_json="{}",
        to_addresses=("reader@example.com",),
        cc_addresses=(),
        bcc_addresses=(),
        recipient_names={},
        from_address=None,
        reply_to=None,
        tags={},
        token=token,
        attachments=(),
    )


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, object]]]:
    """The lines written so far, read as JSON."""
    stream = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_attempt_s_line_has_the_keys_of_any_other_line_and_its_own(
    lines: Callable[[], list[dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-2;Parent=3")
    logger.append_keys(function_request_id='r"1')
    try:
        logger.info("other")
        attempt_ended(a_message(), "ses", "accepted", {"code": None, "provider_message_id": "p-1"})
    finally:
        logger.remove_keys(["function_request_id"])
    other, line = lines()
    assert line.keys() >= other.keys()
    assert {key: line[key] for key in line if key in other} == {
        **other,
        "location": "attempt_ended",
        "message": "attempt ended",
        "timestamp": line["timestamp"],
    }
    assert {key: value for key, value in line.items() if key not in other} == {
        "event_id": event_id(UUID(int=7)),
        "message_id": str(UUID(int=7)),
        "lease_owner": 'worker "1"#a',
        "lease_expires_at": "2026-01-02T03:04:05+00:00",
        "attempt": 2,
        "provider": "ses",
        "template": "receipt",
        "outcome": "accepted",
        "provider_message_id": "p-1",
    }
    moments = [datetime.fromisoformat(str(each["timestamp"])) for each in (other, line)]
    assert abs(moments[1] - moments[0]) < timedelta(seconds=1)
    assert len(str(line["timestamp"])) == len(str(other["timestamp"]))


def test_an_attempt_that_went_wrong_is_a_warning(
    lines: Callable[[], list[dict[str, object]]],
) -> None:
    attempt_ended(a_message(), "ses", "unknown", {"code": 'odd "\n'}, warning=True)
    [line] = lines()
    assert (line["level"], line["code"]) == ("WARNING", 'odd "\n')


def test_no_value_takes_its_line_from_the_log_nor_the_lines_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8")
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    odd = 'a\ud800\x00\n"\\\x85\u2028é'
    for name in ("p-1", odd):
        attempt_ended(a_message(), "ses", "accepted", {"provider_message_id": name})
    found = [json.loads(line) for line in written.getvalue().decode().splitlines()]
    assert [line["provider_message_id"] for line in found] == ["p-1", odd]


def test_a_log_that_cannot_be_written_stops_no_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    attempt_ended(a_message(), "ses", "accepted", {})


def test_lines_that_a_thread_keeps_are_written_together(
    lines: Callable[[], list[dict[str, object]]],
) -> None:
    def work() -> None:
        keep_lines()
        for outcome in ("accepted", "rejected"):
            attempt_ended(a_message(), "ses", outcome, {})
        seen.append(len(lines()))
        write_kept()
        write_kept()

    seen: list[int] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0]
    assert [line["outcome"] for line in lines()] == ["accepted", "rejected"]
    attempt_ended(a_message(), "ses", "deferred", {})
    assert len(lines()) == 3
