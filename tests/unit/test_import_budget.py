"""What each handler loads when it is imported, by name: a cold start pays for it every time.

Of the heavy modules only those of a literal table; the others come with the first use.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.template.configuration import REQUIRED
from tests.template.deployment import FUNCTIONS, ROOT

HEAVY = (
    "asyncio",
    "aws_lambda_powertools.event_handler",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.tracing",
    "aws_lambda_powertools.utilities.parameters",
    "boto3",
    "botocore.client",
    "botocore.config",
    "botocore.session",
    "dns",
    "email_validator",
    "http.client",
    "idna",
    "jinja2",
    "jmespath",
    "multiprocessing",
    "psycopg",
    "psycopg_pool",
    "pydantic",
    "requests",
    "s3transfer",
    "smtplib",
    "ssl",
    "unittest",
    "urllib.request",
    "urllib3",
    "xml",
    "yaml",
)
EVERYWHERE = {
    "aws_lambda_powertools.logging",
    # Powertools loads the next three with any part of it.
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.tracing",
    "jmespath",
    "psycopg",
    # psycopg has an asynchronous half.
    "asyncio",
    "ssl",
}
BUDGETS = dict.fromkeys(FUNCTIONS, EVERYWHERE) | {
    "migrate": EVERYWHERE | {"http.client", "urllib.request"},  # it answers CloudFormation
}
LOADED = """
import sys
import functions.{0}.app
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_importing_a_handler_loads_none_of_the_heavy_modules_but_those_it_may(name: str) -> None:
    path = os.pathsep.join((str(ROOT), str(ROOT / "layers" / "postlease" / "python")))
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(name), *HEAVY],
        env={**REQUIRED, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
    )
    assert set(told.stdout.split()) == BUDGETS[name]
