"""What each handler loads when it is imported, by name: a cold start pays for it every time.

Of the heavy modules only those of a literal table; of the rooms that load their modules with the
first use, those that nearly every invocation needs. The others come with the first use.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from tests.template.configuration import REQUIRED
from tests.template.deployment import FUNCTIONS, ROOT
from tests.unit.test_first_use import PACKAGES

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
    "email.policy",
    "email_validator",
    "html",
    "http.client",
    "idna",
    "jinja2",
    "jmespath",
    "mimetypes",
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
DELIVERY = {
    "model.claims",
    "model.mails",
    "model.outcomes",
    "model.values",
    "outbox.arrays",
    "outbox.claimed_rows",
    "outbox.claiming",
    "outbox.dispatching",
    "outbox.floors",
}
ROOMS = {
    "auth": {
        "accounts.admitting",
        "accounts.asking",
        "accounts.events",
        "accounts.ground",
        "accounts.issuing",
        "accounts.mailboxes",
        "accounts.redeeming",
        "accounts.signing_up",
        "accounts.verifying",
    },
    "doorbell": DELIVERY,
    "feedback": set(),
    "messages": {"model.mails", "model.values", "suppression.listing"},
    "migrate": set(),
    "reaper": {"model.outcomes", "model.values", "retention.ending"},
    "retention": {
        "retention.archiving",
        "retention.duties",
        "retention.ending",
        "retention.files",
        "retention.running",
        "retention.spending",
    },
    "sweep": DELIVERY,
}
LOADED = """
import sys
import functions.{0}.app
print(*(name for name in sys.modules if name in sys.argv[1:] or name.startswith("postlease.")))
"""


@functools.cache
def loaded(name: str) -> set[str]:
    """The heavy modules, and ours, that importing a handler loads in a process of its own."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "layers" / "postlease" / "python")))
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(name), *HEAVY],
        env={**REQUIRED, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
    )
    return set(told.stdout.split())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_importing_a_handler_loads_none_of_the_heavy_modules_but_those_it_may(name: str) -> None:
    assert loaded(name) & set(HEAVY) == BUDGETS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_rooms_that_load_with_the_first_use_a_handler_imports_what_it_always_needs(
    name: str,
) -> None:
    rooms = {package for package in PACKAGES if package != "postlease"}
    ours = {module for module in loaded(name) if module.rpartition(".")[0] in rooms}
    assert ours == {f"postlease.{module}" for module in {*ROOMS[name], "model.words"}}
