"""What the functions' own logger says, and who else is heard beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime

import pytest

from local.stack import ROOT

LEVELS = """
import logging
import sys

logging.basicConfig(level=sys.argv[1])  # as Lambda's runtime does it, by LogLevel
import postlease.telemetry

for name in ("", "botocore.endpoint", "urllib3.connectionpool"):
    print(logging.getLevelName(logging.getLogger(name).getEffectiveLevel()))
print(logging.getLevelName(postlease.telemetry.logger.log_level))
"""


def said(script: str, level: str) -> str:
    """What a function of that log level writes."""
    ran = subprocess.run(
        [sys.executable, "-c", script, level],
        env={
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


@pytest.mark.parametrize(
    ("asked", "of_others"), [("DEBUG", "WARNING"), ("INFO", "WARNING"), ("ERROR", "ERROR")]
)
def test_others_are_heard_from_warnings_on_whatever_level_is_asked_for(
    asked: str, of_others: str
) -> None:
    """At DEBUG the SDK would log secrets and mails."""
    assert said(LEVELS, asked).split() == [of_others] * 3 + [asked]
