"""A provider that keeps keys: what it accepted unheard is settled by asking again."""

from __future__ import annotations

import importlib
import json
import secrets
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease import database as databases
from tests import arrange
from tests.doubles.resend_server import API_KEY, LOST, ResendServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

EVENT = json.loads(
    (Path(__file__).parents[3] / "events" / "reaper-schedule.json").read_text("utf-8")
)
LEASE_AND_A_SECOND = timedelta(seconds=21)


@dataclass(frozen=True, slots=True)
class Invocation:
    """What the reaper may know of its invocation."""

    function_name: str = "postlease-reaper"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:reaper"
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"

    def get_remaining_time_in_millis(self) -> int:
        return 50_000


@pytest.fixture
def resend(
    sweeps: Sweeps, environment: Callable[..., None], secret_store: Any
) -> Iterator[ResendServer]:
    """The sweeps' mail goes through Resend."""
    key = secret_store.create_secret(Name=secrets.token_hex(8), SecretString=API_KEY)
    with ResendServer() as server:
        environment(
            MAIL_PROVIDER="resend",
            RESEND_ENDPOINT=server.url,
            RESEND_API_KEY_SECRET_ARN=key["ARN"],
        )
        yield server


def reap() -> dict[str, int]:
    """One invocation of the reaper, in an environment that is new."""
    sys.modules.pop("functions.reaper.app", None)
    try:
        handler = importlib.import_module("functions.reaper.app").handler
        counts: dict[str, int] = handler(EVENT, Invocation())
    finally:
        databases.application("reaper").discard()
        sys.modules.pop("functions.reaper.app", None)
    return counts


def end_leases(owner: Connection) -> None:
    """Let every lease have ended a second ago."""
    for row in owner.execute("SELECT id FROM postlease.email_messages WHERE status = 'sending'"):
        arrange.age(owner, row["id"], LEASE_AND_A_SECOND, "claimed_at", "lease_expires_at")


def test_a_due_message_is_sent_as_fields_with_its_attachment(
    sweeps: Sweeps, owner: Connection, resend: ResendServer
) -> None:
    [message_id] = arrange.enqueue(owner)
    assert sweeps.run().counts["sent"] == 1
    [(identifier, body)] = resend.mails.items()
    assert body["to"] == ["reader0@example.com"]
    assert body["from"] == "noreply@example.com"
    stored = arrange.row(owner, message_id)
    assert (stored["provider"], stored["provider_message_id"]) == ("resend", identifier)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_lost_first_answer_is_one_mail_under_one_key_whatever_the_policy(
    sweeps: Sweeps, owner: Connection, resend: ResendServer, delivery: str
) -> None:
    """SES-08: one request per attempt, and the second attempt learns what the first one did."""
    [message_id] = arrange.enqueue(owner, delivery=delivery)
    resend.plan.append(LOST)
    assert sweeps.run().counts["unknown"] == 1
    assert arrange.row(owner, message_id)["status"] == "sending"
    end_leases(owner)
    assert reap()["unknown_asked_again"] == 1
    assert sweeps.run().counts["sent"] == 1
    [identifier] = resend.mails
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["provider_message_id"]) == ("sent", identifier)
    assert (stored["attempt_count"], stored["unknown_count"]) == (2, 0)
    assert resend.asked() == {str(message_id): 2}


def test_a_message_that_renders_otherwise_meanwhile_is_not_sent_twice(
    sweeps: Sweeps,
    owner: Connection,
    resend: ResendServer,
    environment: Callable[..., None],
) -> None:
    """TPL-03: the same key with another body says that the first one was accepted.

    What that one was rendered from is not known, so no version is recorded.
    """
    [message_id] = arrange.enqueue(owner)
    resend.plan.append(LOST)
    sweeps.run()
    environment(FROM_NAME="Renamed")
    end_leases(owner)
    reap()
    assert sweeps.run().counts["sent"] == 1
    assert len(resend.mails) == 1
    stored = arrange.row(owner, message_id)
    assert stored["provider_message_id"] == f"resend-key:{message_id}"
    assert stored["template_version"] is None


def test_the_reaper_asks_nobody_again_who_keeps_no_keys(
    sweeps: Sweeps,
    owner: Connection,
    resend: ResendServer,
    environment: Callable[..., None],
) -> None:
    arrange.enqueue(owner)
    resend.plan.append(LOST)
    sweeps.run()
    end_leases(owner)
    environment(MAIL_PROVIDER="ses")
    assert reap()["unknown_asked_again"] == 0
    assert arrange.statuses(owner) == {"sending": 1}
