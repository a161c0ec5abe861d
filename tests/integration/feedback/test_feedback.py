"""Events settle what is open, in any order, doubled, early, late, and only what is ours."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest

from local.provider import Events
from local.ses_events import EventKind
from postlease import gate, outbox
from tests import arrange
from tests.integration.feedback.conftest import SET, key, told

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Sequence

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps
    from tests.integration.feedback.conftest import Feedback

PROOFS = get_args(EventKind)


@pytest.mark.parametrize("kind", PROOFS)
def test_every_kind_proves_that_the_attempt_was_accepted(
    told_us: Feedback, owner: Connection, application: Connection, kind: Any
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    first, second = told_us.take(*[told(kind, message_id=message_id)] * 2)
    assert (first.settled, second.settled) == (True, False)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["provider_message_id"]) == ("sent", "from-the-event")
    assert len(stored["attempts"]) == 1


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("Send", "Delivery", "DeliveryDelay", "PermanentBounce")))
)
def test_events_in_any_order_come_to_the_same(
    told_us: Feedback, owner: Connection, application: Connection, order: Sequence[Any]
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    early, late = order[:2], order[2:]
    told_us.take(*(told(kind, message_id=message_id) for kind in early for _ in range(2)))
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}
    told_us.take(*(told(kind, message_id=message_id) for kind in late for _ in range(2)))
    stored = arrange.row(owner, message_id)
    assert (stored["status"], len(stored["attempts"])) == ("sent", 1)
    assert told_us.reason() == "bounce"


def test_an_event_of_a_message_that_was_deleted_still_keeps_the_list(
    told_us: Feedback, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    owner.execute("DELETE FROM postlease.email_messages")
    [taken] = told_us.take(told("PermanentBounce", message_id=message_id))
    assert (taken.settled, taken.suppressed) == (False, 1)


@pytest.mark.parametrize(
    "body",
    ["", "{}", "[]", "null", '{"source": "aws.ses"}', "[" * 50_000, '"\\ud800"'],
)
def test_what_is_not_ours_or_cannot_be_read_changes_nothing(
    told_us: Feedback, owner: Connection, application: Connection, body: str
) -> None:
    arrange.enqueue(owner)
    arrange.dispatch(application)
    [taken] = told_us.take(body)
    assert taken.word == "ignored"
    assert arrange.statuses(owner) == {"sending": 1}


@pytest.mark.parametrize("other", ["account", "set", "untagged"])
def test_an_event_of_somebody_else_changes_nothing(
    told_us: Feedback, owner: Connection, application: Connection, other: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    event = told("PermanentBounce", message_id=message_id)
    if other == "account":
        event["account"] = "210987654321"
    elif other == "set":
        event["detail"]["mail"]["tags"]["ses:configuration-set"] = ["another"]
    else:
        del event["detail"]["mail"]["tags"]["postlease-id"]
    [taken] = told_us.take(event)
    assert taken.word == "ignored"
    assert arrange.statuses(owner) == {"sending": 1}
    assert told_us.suppressed() == []


def sending(enabled: str) -> dict[str, Any]:
    """SES's word on whether our configuration set may send."""
    event = told("Send")
    return event | {
        "detail-type": f"Sending Status {enabled}",
        "detail": {"version": "1.0.0", "data": {"record": {"status": enabled.upper()}}},
    }


def test_a_disabled_configuration_set_closes_the_gate_and_an_enabled_one_opens_it(
    told_us: Feedback, application: Connection
) -> None:
    for enabled, closed in (("Disabled", True), ("Enabled", False)):
        for _ in range(2):
            assert [taken.word for taken in told_us.take(sending(enabled))] == ["status"]
            assert gate.look(application, "ses").closed is closed
    other = sending("Disabled") | {"resources": ["arn:aws:ses:us-east-1:1:tenant/another"]}
    told_us.take(other)
    assert not gate.look(application, "ses").closed


def test_logs_carry_ids_and_no_address_and_no_diagnostics(
    told_us: Feedback, owner: Connection, application: Connection, logs: io.StringIO
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    event = told("PermanentBounce", message_id=message_id)
    event["detail"]["bounce"]["bouncedRecipients"][0]["diagnosticCode"] = "smtp; 550 go away"
    told_us.take(event, "nonsense of reader0@example.com")
    noted, ignored = (json.loads(line) for line in logs.getvalue().splitlines())
    assert (noted["message_id"], noted["attempt"]) == (str(message_id), 1)
    assert (noted["provider_message_id"], noted["kind"]) == ("from-the-event", "Bounce")
    assert ignored["reason"] == "unreadable"
    assert "@" not in logs.getvalue()
    assert "go away" not in logs.getvalue()


# The real delivery, a provider on a socket, and the events that it publishes.


@pytest.fixture
def published(sweeps: Sweeps, environment: Callable[..., None]) -> list[dict[str, Any]]:
    """The events of the provider, in the order in which it told them."""
    environment(SES_CONFIGURATION_SET=SET)
    events: list[dict[str, Any]] = []
    sweeps.provider.publish = events.append
    return events


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_an_unknown_message_is_settled_by_its_event_and_not_sent_again(
    sweeps: Sweeps,
    published: list[dict[str, Any]],
    told_us: Feedback,
    owner: Connection,
    application: Connection,
    delivery: str,
) -> None:
    [message_id] = arrange.enqueue(owner, delivery=delivery)
    sweeps.provider.set_events(Events(("Send", "Delivery")))
    sweeps.meets("lose_response", 1)
    assert sweeps.run().counts["unknown"] == 1
    arrange.age(owner, message_id, timedelta(hours=1), "claimed_at", "lease_expires_at")
    arrange.reap(application)
    assert arrange.row(owner, message_id)["unknown_count"] == 1
    first, second = told_us.take(*published)
    assert (first.settled, second.settled) == (True, False)
    assert sweeps.run().counts["claimed"] == 0
    assert arrange.reap(application)["unknown"].total == 0
    [mail] = sweeps.inbox()
    stored = arrange.row(owner, message_id)
    assert stored["status"] == "sent"
    assert stored["provider_message_id"] == mail["provider_message_id"]


def test_an_event_that_overtakes_the_answer_costs_nothing(
    sweeps: Sweeps,
    published: list[dict[str, Any]],
    told_us: Feedback,
    owner: Connection,
) -> None:
    [message_id] = arrange.enqueue(owner)
    sweeps.provider.set_events(Events(("Send",)))

    def overtake(event: dict[str, Any]) -> None:
        published.append(event)
        told_us.take(event)

    sweeps.provider.publish = overtake
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["lease_lost"]) == (1, 0)
    assert len(published) == len(sweeps.inbox()) == 1
    stored = arrange.row(owner, message_id)
    assert stored["status"] == "sent"
    assert [entry["code"] for entry in stored["attempts"]] == ["event"]


def test_who_bounced_gets_no_more_mail_and_who_complained_gets_auth_mail_alone(
    sweeps: Sweeps,
    published: list[dict[str, Any]],
    told_us: Feedback,
    owner: Connection,
) -> None:
    sweeps.provider.set_events(Events(("PermanentBounce",)))
    arrange.enqueue(owner, to=["bounced@example.com"])
    sweeps.run()
    sweeps.provider.set_events(Events(("Complaint",)))
    arrange.enqueue(owner, to=["complained@example.com"])
    sweeps.run()
    told_us.take(*published)
    assert told_us.reason("bounced@example.com") == "bounce"
    assert told_us.reason("complained@example.com") == "complaint"
    again = [
        *arrange.enqueue(owner, to=["bounced@example.com"]),
        *arrange.enqueue(owner, to=["complained@example.com"]),
        *arrange.enqueue(owner, to=["else@example.com"]),
    ]
    sweeps.run()
    reasons = [arrange.row(owner, message_id)["failure_reason"] for message_id in again]
    assert reasons == ["suppressed", "suppressed", None]
    assert len(sweeps.inbox()) == 3
    assert key("bounced@example.com") != key("complained@example.com")
