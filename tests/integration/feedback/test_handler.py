"""The function takes a batch of SQS, and gives back what the database did not take."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.runtime import ACCOUNT
from tests import arrange
from tests.integration.feedback.conftest import told
from tests.metrics import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection
    from tests.integration.feedback.conftest import Feedback

SAMPLES = sorted((Path(__file__).parents[3] / "events").glob("feedback-*.json"))


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    account: str = ACCOUNT
    function_name: str = "postlease-feedback"
    memory_limit_in_mb: int = 512
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"

    @property
    def invoked_function_arn(self) -> str:
        return f"arn:aws:lambda:us-east-1:{self.account}:function:feedback"


@pytest.fixture
def handler(told_us: Feedback) -> Iterator[Callable[..., dict[str, Any]]]:
    """The function as a new environment would load it."""
    sys.modules.pop("functions.feedback.app", None)
    yield importlib.import_module("functions.feedback.app").handler
    del sys.modules["functions.feedback.app"]


def batch(*bodies: Any) -> dict[str, Any]:
    """Records as SQS hands them on; a body that is no text is written as JSON."""
    return {
        "Records": [
            {"messageId": f"m{n}", "body": body if isinstance(body, str) else json.dumps(body)}
            for n, body in enumerate(bodies)
        ]
    }


def metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What the function counted."""
    return {one.name: sum(one.values) for one in read(capsys.readouterr().out)}


def test_each_event_is_taken_by_itself_and_counted(
    handler: Callable[..., dict[str, Any]],
    owner: Connection,
    application: Connection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    event = batch(
        "nonsense",
        told("Send", message_id=message_id),
        told("PermanentBounce", message_id=message_id),
        told("TransientBounce", "c@example.com", message_id=message_id),
        told("Complaint", "b@example.com"),
        {"source": "aws.s3"},
    )
    assert handler(event, Invocation()) == {"batchItemFailures": []}
    assert arrange.statuses(owner) == {"sent": 1}
    assert metrics(capsys) == {
        "EventsSettled": 1,
        "EventsIgnored": 2,
        "EventsFailed": 0,
        "Bounces": 2,
        "HardBounced": 1,
        "Complained": 1,
        "Complaints": 1,
        "Suppressions": 2,
    }


def test_what_the_database_does_not_take_comes_again(
    handler: Callable[..., dict[str, Any]],
    owner: Connection,
    application: Connection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    event = batch("nonsense", told("Send", message_id=message_id))
    owner.execute("REVOKE UPDATE ON postlease.email_messages FROM postlease_application")
    try:
        assert handler(event, Invocation()) == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    finally:
        owner.execute("GRANT UPDATE ON postlease.email_messages TO postlease_application")
    assert arrange.statuses(owner) == {"sending": 1}
    assert metrics(capsys)["EventsFailed"] == 1
    assert handler(event, Invocation()) == {"batchItemFailures": []}
    assert arrange.statuses(owner) == {"sent": 1}


def test_a_database_that_is_away_costs_no_event(
    environment: Callable[..., None],
    handler: Callable[..., dict[str, Any]],
    secret_store: Any,
) -> None:
    login = {"host": "127.0.0.1", "port": "9", "dbname": "x", "username": "x", "password": "x"}
    made = secret_store.create_secret(Name="away", SecretString=json.dumps(login))
    environment(DATABASE_SECRET_ARN=made["ARN"])
    event = batch(told("Send"), "nonsense", told("Delivery"))
    failed = handler(event, Invocation())["batchItemFailures"]
    assert [one["itemIdentifier"] for one in failed] == ["m0", "m2"]


def test_events_of_another_account_than_the_function_s_are_ignored(
    handler: Callable[..., dict[str, Any]], owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    event = batch(told("Send", message_id=message_id))
    assert handler(event, Invocation("210987654321")) == {"batchItemFailures": []}
    assert arrange.statuses(owner) == {"sending": 1}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_taken(handler: Callable[..., dict[str, Any]], sample: Path) -> None:
    event = json.loads(sample.read_text("utf-8"))
    assert handler(event, Invocation()) == {"batchItemFailures": []}
