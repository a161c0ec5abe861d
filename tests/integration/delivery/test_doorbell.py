"""The doorbell's function: rings in, mails out; only what nobody looked at comes again."""

from __future__ import annotations

import importlib
import json
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from postlease.model import event_id
from tests import arrange

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

SAMPLE = json.loads((Path(__file__).parents[3] / "events" / "doorbell-sqs.json").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    milliseconds: int = 30_000
    function_name: str = "postlease-doorbell"
    memory_limit_in_mb: int = 1024
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:doorbell"
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"
    log_stream_name: str = "stream"

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


def rings(*bodies: UUID | str) -> dict[str, Any]:
    """A batch; the queue's id of each message is its place."""
    [record] = SAMPLE["Records"]
    return {
        "Records": [
            {
                **record,
                "messageId": str(place),
                "body": body if isinstance(body, str) else event_id(body),
            }
            for place, body in enumerate(bodies)
        ]
    }


def failed(answer: dict[str, Any]) -> list[str]:
    """The places that are to come again."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


@pytest.fixture
def hear(sweeps: Sweeps) -> Iterator[Callable[..., dict[str, Any]]]:
    """Calls the handler with rings, in a new process's state."""
    name = "functions.doorbell.app"

    def call(*bodies: UUID | str, milliseconds: int = 30_000) -> dict[str, Any]:
        sys.modules.pop(name, None)
        handler = importlib.import_module(name).handler
        answer: dict[str, Any] = handler(rings(*bodies), Invocation(milliseconds))
        return answer

    yield call
    sys.modules.pop(name, None)


def counted(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """The values of each metric that was written."""
    found: dict[str, list[float]] = {}
    for line in capsys.readouterr().out.splitlines():
        entry = json.loads(line)
        for directive in entry.get("_aws", {}).get("CloudWatchMetrics", []):
            for metric in directive["Metrics"]:
                found.setdefault(metric["Name"], []).extend(entry[metric["Name"]])
    return found


def test_a_ring_sends_its_mail_and_is_done(
    hear: Callable[..., dict[str, Any]],
    sweeps: Sweeps,
    owner: Connection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rung, waiting = arrange.enqueue(owner, 2)
    capsys.readouterr()
    assert failed(hear(rung)) == []
    assert arrange.row(owner, rung)["status"] == "sent"
    assert arrange.row(owner, waiting)["status"] == "pending"
    written = counted(capsys)
    assert [written[name] for name in ("DoorbellHeard", "DoorbellMalformed", "DoorbellUnseen")] == [
        [1],
        [0],
        [0],
    ]
    assert (written["Claimed"], written["Sent"], written["UnknownOutcomes"]) == ([1], [1], [0])
    [to_call], [to_sent] = written["EnqueueToCall"], written["EnqueueToSent"]
    assert 0 < to_call <= to_sent


def test_a_doubled_ring_claims_nothing_and_is_done(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    assert failed(hear(message_id, message_id)) == []
    assert failed(hear(message_id)) == []
    assert len(sweeps.inbox()) == 1
    assert arrange.row(owner, message_id)["attempt_count"] == 1


def test_a_late_ring_for_mail_that_the_sweep_sent_is_done(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    sweeps.run()
    assert failed(hear(message_id)) == []
    assert len(sweeps.inbox()) == 1


def test_a_lost_ring_s_mail_leaves_with_the_sweep(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    lost, heard = arrange.enqueue(owner, 2)
    hear(heard)
    assert sweeps.run().counts["sent"] == 1
    assert arrange.row(owner, lost)["status"] == "sent"


def test_what_is_no_ring_is_dropped_and_told_without_its_text(
    hear: Callable[..., dict[str, Any]],
    sweeps: Sweeps,
    owner: Connection,
    logs: io.StringIO,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A poison message is done at once: it does not come again, and costs the others nothing."""
    [message_id] = arrange.enqueue(owner)
    poison = ["reader@example.com", "", '{"id": 1}', str(uuid4())]
    assert failed(hear(*poison, message_id)) == []
    assert arrange.row(owner, message_id)["status"] == "sent"
    assert counted(capsys)["DoorbellMalformed"] == [4]
    lines = [json.loads(line) for line in logs.getvalue().splitlines()]
    told = [line["queue_message_id"] for line in lines if "queue_message_id" in line]
    assert told == ["0", "1", "2", "3"]
    assert "reader@" not in logs.getvalue()


def test_an_id_that_nobody_has_is_done(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    assert failed(hear(uuid4(), uuid4())) == []
    assert sweeps.inbox() == []


def test_another_producer_s_message_is_sent_as_it_would_be_anyway(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    """Only auth mail rings; but whoever is due may be claimed by anybody, once."""
    [bulk] = arrange.enqueue(owner, priority=100)
    hear(bulk)
    assert sweeps.run().counts["claimed"] == 0
    assert len(sweeps.inbox()) == 1


def test_what_the_provider_refuses_is_the_ledger_s_and_does_not_come_again(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    refused, unknown, sent = arrange.enqueue(owner, 3)
    sweeps.meets("reject", 1)
    assert failed(hear(refused)) == []
    sweeps.meets("lose_response", 1)
    assert failed(hear(unknown, sent)) == []
    assert arrange.statuses(owner) == {"failed": 1, "sending": 1, "sent": 1}


def test_without_a_database_the_rings_come_again_and_what_is_no_ring_does_not(
    hear: Callable[..., dict[str, Any]],
    sweeps: Sweeps,
    owner: Connection,
    environment: Callable[..., None],
    secret_store: Any,
    secret_arns: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = arrange.enqueue(owner, 2)
    login = {"host": "127.0.0.1", "port": 1, "dbname": "d", "username": "u", "password": "p"}
    made = secret_store.create_secret(Name=secrets.token_hex(8), SecretString=json.dumps(login))
    environment(DATABASE_SECRET_ARN=made["ARN"])
    assert failed(hear(first, "poison", second)) == ["0", "2"]
    assert counted(capsys)["DoorbellUnseen"] == [2]
    environment(DATABASE_SECRET_ARN=secret_arns["DATABASE_SECRET_ARN"])
    assert failed(hear(first, second)) == []
    assert arrange.statuses(owner) == {"sent": 2}


def test_without_the_time_for_a_call_the_rings_come_again(
    hear: Callable[..., dict[str, Any]], sweeps: Sweeps, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    assert failed(hear(message_id, milliseconds=10_500)) == ["0"]
    assert arrange.row(owner, message_id)["attempt_count"] == 0
