"""What the functions' own logger says, and who else is heard beside it."""

from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("asked", "of_others"), [("DEBUG", "WARNING"), ("INFO", "WARNING"), ("ERROR", "ERROR")]
)
def test_others_are_heard_from_warnings_on_whatever_level_is_asked_for(
    asked: str, of_others: str
) -> None:
    """At DEBUG the SDK would log secrets and mails."""
    ran = subprocess.run(
        [sys.executable, "-c", LEVELS, asked],
        env={
            "AWS_LAMBDA_LOG_LEVEL": asked,
            "PYTHONPATH": str(ROOT / "layers" / "postlease" / "python"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == [of_others] * 3 + [asked]
