"""What `make build` left in .aws-sam/build, and a stack that runs it as Lambda would."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from local import postgres
from local.built import Built
from local.stack import ROOT, Stack
from tests.emptying import emptied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postlease.database import Connection

SETTINGS = {
    "CALL_BUDGET_SECONDS": "2",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "1.4",
    "START_MARGIN_SECONDS": "1",
    "CALLER_MARGIN_SECONDS": "2",
    "LEASE_SECONDS": "6",
    "UNKNOWN_GRACE_SECONDS": "8",
    "SWEEP_TIMEOUT_SECONDS": "10",
    "SWEEP_LINGER_SECONDS": "0",
}
"""A deployment's times, scaled down."""


def sample(name: str) -> dict[str, Any]:
    """An event of events/, by its file's name."""
    loaded: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text("utf-8"))
    return loaded


def function_of(name: str) -> str:
    """The function that a sample is for."""
    return name.partition("-")[0]


def answer(stack: Stack, name: str, **changes: Any) -> tuple[int, Any]:
    """Status and body of a sample's answer; changes replace its members.

    id stands for the last part of its path that names something; body is written as JSON.
    """
    event = sample(name)
    if "id" in changes:
        wanted = str(changes.pop("id"))
        known = event.get("pathParameters", {}).get("id", event["rawPath"].rpartition("/")[2])
        event = json.loads(json.dumps(event).replace(known, wanted))
    if "body" in changes:
        changes["body"] = json.dumps(changes["body"])
    result = stack.invoke(function_of(name), event | changes)
    kind = result["headers"].get("content-type", "")
    return result["statusCode"], json.loads(result["body"]) if "json" in kind else result["body"]


def token(stack: Stack) -> str:
    """The token in the link of the newest mail."""
    [found] = set(re.findall(r"#token=([\w-]+)", stack.inbox()[-1]["text"]))
    return str(found)


def pass_time(owner: Connection, seconds: int) -> None:
    """Move every lease into the past, as if so much time had gone by."""
    owner.execute(
        "UPDATE postlease.email_messages SET claimed_at = claimed_at - %(by)s::interval,"
        " lease_expires_at = lease_expires_at - %(by)s::interval,"
        " dispatched_at = dispatched_at - %(by)s::interval WHERE status = 'sending'",
        {"by": f"{seconds} seconds"},
    )


@pytest.fixture(scope="session")
def built() -> Built:
    """SAM's build and the runtime's Python; both come with `make artefact`."""
    found = Built(ROOT / ".aws-sam" / "build", ROOT / ".venv-lambda" / "bin" / "python")
    assert (found.folder / "template.yaml").is_file(), "nothing is built: run `make artefact`"
    assert found.python.exists(), "there is no .venv-lambda: run `make artefact`"
    return found


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A server of the built functions' own, which tests restart."""
    with postgres.Server(durable=True) as own:
        yield own


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of mail templates beside the package's own, for tests to write into."""
    return tmp_path_factory.mktemp("templates")


@pytest.fixture(scope="session")
def stack(built: Built, server: postgres.Server, templates: Path) -> Iterator[Stack]:
    """Every built function, migrated by the built migrate."""
    with Stack(
        built=built,
        database_url=server.url,
        settings=SETTINGS | {"TEMPLATES_DIRECTORY": str(templates)},
        timeouts={"sweep": 10},
    ) as running:
        yield running


@pytest.fixture
def rows(stack: Stack) -> Iterator[Connection]:
    """The owner's connection, with nothing left of an earlier test."""
    with emptied(stack) as owner:
        yield owner
