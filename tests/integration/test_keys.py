"""An unknown outcome is settled by the provider's own key, for as long as the provider keeps it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import outbox
from postlease.delivery import outcomes
from postlease.model import Unreachable
from postlease.outbox import Reaped
from tests import arrange

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import ClaimedMessage

KEYED: dict[str, Any] = {"provider": "resend", "keeps_keys": True}
SECOND = timedelta(seconds=1)


def reap_keyed(application: Connection, provider: str = "resend") -> Reaped:
    return outbox.reap_keyed(
        application, provider=provider, batch=100, max_attempts=arrange.MAX_ATTEMPTS
    )


def lose_answer(owner: Connection, application: Connection, message: ClaimedMessage) -> None:
    """Dispatch message to the provider that keeps keys, and let the lease end unanswered."""
    arrange.authorize(application, message.claim, **KEYED)
    arrange.end_lease(owner, message.claim.message_id)


def asked_again(owner: Connection, application: Connection, **arguments: Any) -> UUID:
    """A message whose first call was never answered and that is pending again."""
    [message_id] = arrange.enqueue(owner, **arguments)
    [message] = arrange.claim(application)
    lose_answer(owner, application, message)
    assert reap_keyed(application) == Reaped(returned=1, failed=0)
    return message_id


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_an_unknown_message_is_asked_again_at_its_lease_s_end_whatever_its_policy(
    owner: Connection, application: Connection, delivery: str
) -> None:
    """Two calls under one key are one mail, so nothing is risked and no grace is needed."""
    message_id = asked_again(owner, application, delivery=delivery)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["unknown_count"]) == ("pending", 0)
    assert stored["attempts"][-1]["outcome"] == "unknown"
    [message] = arrange.claim(application, owner="worker-b")
    verdicts = arrange.authorize(application, message.claim, **KEYED)
    assert verdicts[message_id].word == "go"


def test_a_running_lease_is_not_asked_again(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    arrange.authorize(application, message.claim, **KEYED)
    assert reap_keyed(application) == Reaped(0, 0)


def test_what_was_never_dispatched_has_nothing_to_ask_for(
    owner: Connection, application: Connection
) -> None:
    message_id = asked_again(owner, application)
    arrange.claim(application, owner="worker-b")
    arrange.end_lease(owner, message_id)
    assert reap_keyed(application) == Reaped(0, 0)


def test_a_message_of_another_provider_is_not_asked_again(
    owner: Connection, application: Connection
) -> None:
    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    lose_answer(owner, application, message)
    assert reap_keyed(application, provider="ses") == Reaped(0, 0)


def test_a_key_that_is_too_old_is_not_asked_again(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    lose_answer(owner, application, message)
    arrange.age(owner, message_id, timedelta(hours=23) + SECOND, "dispatched_at")
    assert reap_keyed(application) == Reaped(0, 0)


def test_a_last_attempt_is_not_asked_again(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET max_attempts = 1")
    [message] = arrange.claim(application)
    lose_answer(owner, application, message)
    assert reap_keyed(application) == Reaped(0, 0)


def test_a_key_counts_from_its_first_call(owner: Connection, application: Connection) -> None:
    message_id = asked_again(owner, application)
    first = arrange.row(owner, message_id)["keyed_since"]
    [message] = arrange.claim(application, owner="worker-b")
    lose_answer(owner, application, message)
    reap_keyed(application)
    assert arrange.row(owner, message_id)["keyed_since"] == first


@pytest.mark.parametrize(
    ("delivery", "word"), [("at_least_once", "go"), ("at_most_once", "outcome_unknown")]
)
@pytest.mark.parametrize("lost", ["age", "provider", "keys"])
def test_a_lost_key_leaves_the_decision_to_the_policy(
    owner: Connection, application: Connection, delivery: str, word: str, lost: str
) -> None:
    message_id = asked_again(owner, application, delivery=delivery)
    [message] = arrange.claim(application, owner="worker-b")
    asking = dict(KEYED)
    if lost == "age":
        arrange.age(owner, message_id, timedelta(hours=23) + SECOND, "keyed_since")
    elif lost == "provider":
        asking["provider"] = "another"
    else:
        asking["keeps_keys"] = False
    assert arrange.authorize(application, message.claim, **asking)[message_id].word == word


def test_a_lost_key_is_not_repeated_twice(owner: Connection, application: Connection) -> None:
    message_id = asked_again(owner, application, delivery="at_least_once")
    for number, word in enumerate(("go", "outcome_unknown")):
        arrange.age(owner, message_id, timedelta(hours=23) + SECOND, "keyed_since")
        [message] = arrange.claim(application, owner=f"worker-{number}")
        asking = KEYED | {"provider": f"another-{number}"}
        assert arrange.authorize(application, message.claim, **asking)[message_id].word == word
        arrange.end_lease(owner, message_id, ago=SECOND) if word == "go" else None
        reap_keyed(application, provider=f"another-{number}")
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "outcome_unknown")


def test_an_answer_about_another_call_does_not_settle_the_first(
    owner: Connection, application: Connection
) -> None:
    """Throttled now says nothing of what became of the call before."""
    message_id = asked_again(owner, application)
    [message] = arrange.claim(application, owner="worker-b")
    arrange.authorize(application, message.claim, **KEYED)
    unreachable = outcomes.settle(message, Unreachable("dns"), template_version=None, chance=0)
    assert unreachable is not None
    outbox.record(application, [unreachable])
    assert arrange.row(owner, message_id)["keyed_since"] is not None


def test_an_accepted_answer_settles_the_key(owner: Connection, application: Connection) -> None:
    message_id = asked_again(owner, application)
    [message] = arrange.claim(application, owner="worker-b")
    arrange.authorize(application, message.claim, **KEYED)
    outbox.record(application, [arrange.sent(message.claim)])
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["keyed_since"]) == ("sent", None)
