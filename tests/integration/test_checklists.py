"""Promises of the two checklists that no other test has for its name.

docs/architecture.md lists all of them.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease import accounts, config, outbox, rendering
from postlease.backoff import STEPS
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.deadline import Deadline
from postlease.delivery.gatekeeping import Gatekeeper
from postlease.delivery.preparing import Preparer
from postlease.delivery.sending import Sender
from postlease.delivery.tally import Tally
from postlease.delivery.turns import Turn
from postlease.delivery.writer import Writer
from postlease.model import Accepted, Outcome, OutgoingMail, Unknown, parse_event_id
from tests import arrange
from tests.doubles.smtp_server import SILENCE, SmtpServer
from tests.integration.auth.conftest import World, open_database, world
from tests.integration.delivery.conftest import Sweeps, sweeps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection, Database

__all__ = ["open_database", "sweeps", "world"]

EVENTS = Path(__file__).parents[2] / "events"
CALL_BUDGET = timedelta(seconds=10)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    milliseconds: int = 60_000
    function_name: str = "postlease"
    memory_limit_in_mb: int = 1024
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:postlease"
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"
    log_stream_name: str = "stream"

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def metrics_of(
    sweeps: Sweeps, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[str], dict[str, list[float]]]]:
    """Runs a function's handler as its schedule does; answers the metrics that it wrote."""
    loaded: list[str] = []

    def run(name: str) -> dict[str, list[float]]:
        loaded.append(f"functions.{name}.app")
        sys.modules.pop(loaded[-1], None)
        handler = importlib.import_module(loaded[-1]).handler
        capsys.readouterr()
        handler(json.loads((EVENTS / f"{name}-schedule.json").read_text("utf-8")), Invocation())
        written: dict[str, list[float]] = {}
        for line in capsys.readouterr().out.splitlines():
            entry = json.loads(line)
            for directive in entry["_aws"]["CloudWatchMetrics"] if "_aws" in entry else ():
                for metric in directive["Metrics"]:
                    written.setdefault(metric["Name"], []).extend(entry[metric["Name"]])
        return written

    yield run
    for module in loaded:
        sys.modules.pop(module, None)


def test_the_same_signup_idempotency_key_creates_one_verification_event(
    world: World, open_database: Callable[[], Database]
) -> None:
    """Eight at once and one after the cooldown, which alone would have made them one."""
    opened = [open_database() for _ in range(8)]

    def sign_up(database: Database) -> accounts.SignUp:
        return accounts.sign_up(database, email="ada@example.com", idempotency_key="once-1")

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(sign_up, opened))
    world.end_cooldowns()
    answers.append(sign_up(opened[0]))
    assert len({(answer.user_id, answer.event_id) for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    [message] = world.rows("SELECT id, template, status FROM postlease.email_messages")
    assert message["id"] == parse_event_id(answers[0].event_id)
    assert (message["template"], message["status"]) == ("verify_email", "pending")
    assert world.count("verification_tokens") == world.count("users") == 1
    accounts.sign_up(opened[0], email="ada@example.com", idempotency_key="once-2")
    assert world.count("email_messages") == 2


def test_metrics_expose_queued_sending_sent_failed_and_expired_counts(
    metrics_of: Callable[[str], dict[str, list[float]]],
    owner: Connection,
    application: Connection,
) -> None:
    """RET-03: also when there is nothing to tell."""
    names = ("Queued", "Sending", "Sent", "Failed", "Expired")
    zeros = metrics_of("sweep")
    assert {name: zeros[name] for name in names} == {name: [0] for name in names}

    arrange.enqueue(owner)
    arrange.claim(application)  # another worker holds it
    arrange.enqueue(owner, 3)
    arrange.enqueue(owner, template="no_such_template")
    waiting = arrange.enqueue(owner, 2)
    for message_id in waiting:
        arrange.age(owner, message_id, -HOUR, "available_at")
    [late] = arrange.enqueue(owner)
    owner.execute(
        "UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'"
        " WHERE id = ANY (%s)",
        [[late, waiting[0]]],
    )
    swept = metrics_of("sweep")
    assert {name: swept[name] for name in names} == {
        "Queued": [2],
        "Sending": [1],
        "Sent": [3],
        "Failed": [2],
        "Expired": [1],
    }
    reaped = metrics_of("reaper")
    assert (reaped["Expired"], reaped["Failed"]) == ([1], [1])
    assert (reaped["Queued"], reaped["Sending"]) == ([1], [1])
    assert arrange.statuses(owner) == {"pending": 1, "sending": 1, "sent": 3, "failed": 3}


def test_metrics_tell_the_age_of_the_oldest_pending_the_failed_rate_and_the_send_duration(
    metrics_of: Callable[[str], dict[str, list[float]]], sweeps: Sweeps, owner: Connection
) -> None:
    """RET-03."""
    oldest, newer, third, fourth = arrange.enqueue(owner, 4)
    arrange.age(owner, oldest, 3 * HOUR, "available_at")
    arrange.age(owner, newer, HOUR, "available_at")
    [age] = metrics_of("reaper")["OldestDueSeconds"]
    assert age == pytest.approx(3 * 3600, abs=60)

    for message_id in (oldest, newer, third, fourth):
        arrange.age(owner, message_id, HOUR, "available_at")
    arrange.enqueue(owner, template="no_such_template")
    sweeps.meets("slow", seconds=0.2)
    swept = metrics_of("sweep")
    assert swept["FailedRate"] == [pytest.approx(1 / 5)]
    assert len(swept["SendDuration"]) == 4
    assert all(200 <= duration < 2_000 for duration in swept["SendDuration"])
    assert swept["OldestDueSeconds"] == [0]
    assert max(swept["EnqueueToSent"]) == pytest.approx(4 * 3_600_000, abs=60_000)


def test_the_producer_does_not_wait_for_the_provider(
    sweeps: Sweeps,
    environment: Callable[..., None],
    owner: Connection,
    application: Connection,
    database: Database,
) -> None:
    """Calls that hang hold neither a producer's transaction nor a sign-up."""
    environment(
        READ_TIMEOUT_SECONDS="25",
        CALL_BUDGET_SECONDS="30",
        LEASE_SECONDS="40",
        UNKNOWN_GRACE_SECONDS="60",
        SWEEP_TIMEOUT_SECONDS="60",
        SEND_SLOTS="3",
    )
    arrange.enqueue(owner, 3)
    sweeps.meets("stall")
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 3, seconds=20)
    for connection in (application, database.connection()):
        connection.execute("SET lock_timeout = '1ms'")
    with application.transaction():
        [message_id] = arrange.enqueue(application)
    assert accounts.sign_up(database, email="ada@example.com").status == "queued"
    assert arrange.row(owner, message_id)["status"] == "pending"
    assert arrange.statuses(owner) == {"sending": 3, "pending": 2}
    assert sweeps.provider.counts.requests == sweeps.provider.counts.held == 3
    sweeps.provider.close()
    assert running.result().counts["unknown"] == 3


def test_the_recipients_to_cc_and_bcc_are_a_snapshot_of_the_enqueue(
    sweeps: Sweeps, owner: Connection
) -> None:
    """An account that changes its address while a mail waits: the record and the mail agree."""
    for name in ("to", "cc", "bcc"):
        arrange.user(owner, f"{name}@before.example")
    owner.execute(
        "SELECT postlease.enqueue_email('receipt',"
        " ARRAY(SELECT email FROM postlease.users WHERE email LIKE 'to@%'),"
        ' \'{"order_number": "1", "total": "2"}\','
        " cc_addresses => ARRAY(SELECT email FROM postlease.users WHERE email LIKE 'cc@%'),"
        " bcc_addresses => ARRAY(SELECT email FROM postlease.users WHERE email LIKE 'bcc@%'))"
    )
    owner.execute(
        "UPDATE postlease.users SET email = replace(email, 'before', 'after'),"
        " email_canonical = replace(email, 'before', 'after')"
    )
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    [stored] = owner.execute(
        "SELECT to_addresses AS to, cc_addresses AS cc, bcc_addresses AS bcc"
        " FROM postlease.email_messages"
    ).fetchall()
    assert {name: mail[name] for name in stored} == stored
    assert stored == {name: [f"{name}@before.example"] for name in ("to", "cc", "bcc")}


def test_the_call_to_ses_has_a_client_timeout(sweeps: Sweeps, owner: Connection) -> None:
    """A provider that never answers costs one read timeout, and the sweep goes on."""
    [silent] = arrange.enqueue(owner)
    sweeps.meets("stall", 1)
    tally = sweeps.run()
    assert tally.counts["unknown"] == 1
    [duration] = tally.send_milliseconds
    assert 900 < duration < CALL_BUDGET / timedelta(milliseconds=1)
    assert arrange.row(owner, silent)["status"] == "sending"
    arrange.enqueue(owner)
    assert sweeps.run().counts["sent"] == 1


def test_the_call_to_a_relay_has_a_client_timeout(
    sweeps: Sweeps, environment: Callable[..., None], owner: Connection
) -> None:
    with SmtpServer(replies={"text": SILENCE}) as server:
        through_relay(environment, server)
        arrange.enqueue(owner)
        tally = sweeps.run()
    assert tally.counts["unknown"] == 1
    [duration] = tally.send_milliseconds
    assert 900 < duration < CALL_BUDGET / timedelta(milliseconds=1)


def test_metrics_tell_of_a_paused_gate_and_how_often_it_was_closed(
    metrics_of: Callable[[str], dict[str, list[float]]], sweeps: Sweeps, owner: Connection
) -> None:
    """A blocked account is told at once, and for as long as it lasts."""
    arrange.enqueue(owner, 3)
    told = [metrics_of("sweep")]
    sweeps.meets("pause")
    arrange.enqueue(owner, 3)
    told.append(metrics_of("sweep"))
    told.append(metrics_of("sweep"))
    assert [(one["GatePauses"], one["GatePaused"]) for one in told] == [
        ([0], [0]),
        ([1], [1]),
        ([0], [1]),
    ]


@dataclass
class KeyedProvider:
    """Implements the port. Its first answer is lost; it keeps what it was given."""

    name: str = "keyed"
    keeps_keys: bool = True
    mails: list[OutgoingMail] = field(default_factory=list)

    def get_ready(self) -> None:
        """It always is."""

    def sending_rate(self) -> None:
        """None that it tells."""

    def send(self, mail: OutgoingMail) -> Outcome:
        self.mails.append(mail)
        return Unknown("no_answer") if len(self.mails) == 1 else Accepted("provider-2")


def test_the_idempotency_key_is_carried_to_the_provider_port(
    environment: Callable[..., None], owner: Connection, application: Connection
) -> None:
    """The key is the record's id, and the same one when an unknown outcome is asked again."""
    settings = config.settings()
    provider = KeyedProvider()
    [message_id] = arrange.enqueue(owner)
    terms = outbox.Terms(provider.name, keeps_keys=False, needed=arrange.NEEDED, max_attempts=5)
    with Writer(Connections.kept(), terms, Calls(1)) as writer:
        tally = Tally()
        sender = Sender(
            preparer=Preparer(settings, rendering.templates()),
            writer=writer,
            provider=provider,
            gatekeeper=Gatekeeper(writer, provider=provider, tally=tally, own_limit=None),
            tally=tally,
            needed=arrange.NEEDED,
        )
        for number in range(2):
            [message] = arrange.claim(application, owner=f"worker-{number}")
            now = time.monotonic()
            turn = Turn(now, now)
            sender.send(message, Deadline(now + 45, now + 60), turn)
            if number == 0:
                arrange.end_lease(owner, message_id, ago=arrange.GRACE + timedelta(seconds=1))
                assert arrange.reap(application)["unknown"].returned == 1
    assert [mail.idempotency_key for mail in provider.mails] == [str(message_id)] * 2
    assert [mail.attempt for mail in provider.mails] == [1, 2]
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["provider"]) == ("sent", "keyed")


def test_a_4xx_goes_straight_to_failed(sweeps: Sweeps, owner: Connection) -> None:
    """PSN-04: a refusal of this message is one call, one counted attempt, no second one."""
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("reject")
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "rejected")
    assert stored["attempt_count"] - stored["refunded_count"] == 1
    assert sweeps.run().counts["claimed"] == 0
    assert sweeps.provider.counts.requests == 1


def test_a_retry_waits_longer_each_time_and_ends_at_the_greatest_number_of_attempts(
    sweeps: Sweeps, environment: Callable[..., None], owner: Connection
) -> None:
    """PSN-04: five calls in all, each after a longer wait, and then an end that shows."""
    with SmtpServer(replies={"text": b"451 4.3.0 not now"}) as server:
        through_relay(environment, server, MAX_ATTEMPTS="5")
        [message_id] = arrange.enqueue(owner)
        for step in STEPS:
            sweeps.run()
            stored = arrange.row(owner, message_id)
            assert stored["status"] == "pending"
            ended = datetime.fromisoformat(stored["attempts"][-1]["ended_at"])
            assert 0.5 * step <= stored["available_at"] - ended < 1.5 * step
            assert sweeps.run().counts["claimed"] == 0, "it did not wait"
            arrange.age(owner, message_id, 1.5 * step, "available_at")
        sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "attempts_exhausted")
    assert [entry["code"] for entry in stored["attempts"]] == ["message_deferred"] * 5
    assert server.connections == 5


def through_relay(environment: Callable[..., None], server: SmtpServer, **variables: Any) -> None:
    """Let mail go through server instead of SES."""
    environment(
        MAIL_PROVIDER="smtp",
        SMTP_HOST="127.0.0.1",
        SMTP_PORT=str(server.port),
        SMTP_SECURITY="none",
        **variables,
    )
