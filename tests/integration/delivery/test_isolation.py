"""One message's trouble never touches another's."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from postlease.delivery import preparing
from postlease.errors import PostleaseError
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from postlease.delivery.preparing import PreparedMail, Preparer
    from postlease.model import ClaimedMessage
    from tests.integration.delivery.conftest import Sweeps

EXCEPTIONS = [
    ValueError("reader@example.com"),
    TypeError(),
    KeyError("name"),
    AttributeError(),
    IndexError(),
    UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogate"),
    RecursionError(),
    MemoryError(),
    OSError(),
    RuntimeError(),
    ZeroDivisionError(),
    PostleaseError("unforeseen"),
]
POISON = "reader2@example.com"


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_an_unexpected_exception_defers_its_message_alone(
    sweeps: Sweeps, owner: Connection, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """PSN-02: the type is noted, the batch goes on."""
    prepare = preparing.Preparer.prepare

    def fail_for_one(self: Preparer, message: ClaimedMessage, **named: Any) -> PreparedMail:
        if message.to_addresses == (POISON,):
            raise error
        return prepare(self, message, **named)

    monkeypatch.setattr(preparing.Preparer, "prepare", fail_for_one)
    ids = arrange.enqueue(owner, 5)
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["unexpected"]) == (4, 1)
    stored = arrange.row(owner, ids[2])
    assert (stored["status"], stored["refunded_count"]) == ("pending", 0)
    assert stored["attempts"][-1]["code"] == f"unexpected_{type(error).__name__}"
    assert "reader2" not in str(stored["attempts"])


@pytest.mark.parametrize(
    "number", ["1" + "0" * 5000, "[" * 3000 + "]" * 3000], ids=["digits", "depth"]
)
def test_parameters_that_python_cannot_read_end_their_message_alone(
    sweeps: Sweeps, owner: Connection, number: str
) -> None:
    """PostgreSQL takes them. A claim that read them would fall over with all its messages."""
    before = arrange.enqueue(owner, 2)
    found = owner.execute(
        "SELECT postlease.enqueue_email('receipt', ARRAY['poison@example.com'],"
        ' (\'{"order_number": \' || %s || \', "total": "2"}\')::jsonb) AS id',
        [number],
    ).fetchone()
    assert found
    after = arrange.enqueue(owner, 2)
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["failed"]) == (4, 1)
    assert {arrange.row(owner, key)["status"] for key in before + after} == {"sent"}
    poison = owner.execute(
        "SELECT failure_reason, attempts->-1->>'code' AS code FROM postlease.email_messages"
        " WHERE id = %s",
        [found["id"]],
    ).fetchone()
    assert poison == {"failure_reason": "render_error", "code": "parameters_unreadable"}


@pytest.mark.parametrize(
    ("variable", "text"),
    [("PEPPER_SECRET_ARN", "too short"), ("TOKEN_KEYS_SECRET_ARN", '{"k1": "no current"}')],
)
def test_a_malformed_secret_fails_nothing(
    sweeps: Sweeps,
    owner: Connection,
    environment: Callable[..., None],
    secret_store: Any,
    variable: str,
    text: str,
) -> None:
    """It is true of every message, so no message pays for it."""
    made = secret_store.create_secret(Name=f"wrong-{variable}", SecretString=text)
    environment(**{variable: made["ARN"]})
    message_id, _ = arrange.auth_message(owner)
    # The pepper is asked for once the link is made, and this one cannot be made.
    if variable == "PEPPER_SECRET_ARN":
        [message_id] = arrange.enqueue(owner)
    sweeps.run()
    secret_store.delete_secret(SecretId=made["ARN"], ForceDeleteWithoutRecovery=True)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)
    last = stored["attempts"][-1]
    assert (last["outcome"], last["code"]) == ("blocked", "configuration")


def test_a_message_that_cost_a_worker_is_sent_with_nothing_else_in_flight(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    ids = arrange.enqueue(owner, 6)
    lost = arrange.claim(application, 2)
    for message in lost:
        arrange.end_lease(owner, message.claim.message_id)
    arrange.reap(application)
    sweeps.meets("slow", seconds=0.3)
    assert sweeps.run().counts["sent"] == 6
    flights = []
    for message_id in ids:
        last = arrange.row(owner, message_id)["attempts"][-1]
        flights.append(
            (
                datetime.fromisoformat(last["claimed_at"]),
                datetime.fromisoformat(last["ended_at"]),
                message_id in {message.claim.message_id for message in lost},
            )
        )
    flights.sort()
    for earlier, later in pairwise(flights):
        if earlier[2] or later[2]:
            assert earlier[1] <= later[0] + timedelta(milliseconds=1)


def test_a_suspect_waits_for_what_is_in_flight(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    """A long run meets it while others are being sent: they land first."""
    arrange.enqueue(owner, 3)
    sweeps.meets("slow", seconds=1.5)
    running = sweeps.start(linger=4)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 3, seconds=30)
    [suspect] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET reaped_count = 1 WHERE id = %s", [suspect])
    assert running.result().counts["sent"] == 4
    claimed = arrange.row(owner, suspect)["attempts"][-1]["claimed_at"]
    ended = owner.execute(
        "SELECT max(finished_at) AS at FROM postlease.email_messages WHERE id <> %s", [suspect]
    ).fetchone()
    assert ended
    assert ended["at"] <= datetime.fromisoformat(claimed)


def test_a_prepared_mail_without_suppressions_is_the_mail_itself(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    from postlease import config, rendering  # noqa: PLC0415

    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    prepared = preparing.Preparer(config.settings(), rendering.templates()).prepare(message)
    assert prepared.without(frozenset()) is prepared.mail
    [digest] = prepared.digests.values()
    assert prepared.without({digest}) == dataclasses.replace(
        prepared.mail, envelope=dataclasses.replace(prepared.mail.envelope, to=())
    )
