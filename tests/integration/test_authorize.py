"""The last check of eligibility, and the dispatch mark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from postlease import outbox
from postlease.delivery import outcomes
from postlease.model import Claim
from tests import arrange

if TYPE_CHECKING:
    from postlease.database import Connection

DIGEST = b"d" * 32
OTHER_DIGEST = b"o" * 32


def suppress(
    owner: Connection, digest: bytes, reason: str = "bounce", expires: str = "1 day"
) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason, expires_at)"
        " VALUES (%s, %s, now() + %s::interval)",
        [digest, reason, expires],
    )


def test_go_sets_the_mark_and_names_the_provider(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    assert arrange.row(owner, message_id)["dispatched_at"] is None
    verdicts = arrange.authorize(application, message.claim)
    assert verdicts == {message_id: outbox.Verdict("go", frozenset())}
    stored = arrange.row(owner, message_id)
    assert stored["dispatched_at"] is not None
    assert (stored["status"], stored["provider"]) == ("sending", "ses")


def test_asking_again_after_a_lost_answer_gets_the_same_go(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    first = arrange.authorize(application, message.claim)
    assert arrange.authorize(application, message.claim) == first
    assert arrange.row(owner, message_id)["attempt_count"] == 1


def test_the_mark_needs_the_lease_owner(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    stranger = Claim(message_id, "worker-b", message.claim.attempt)
    assert arrange.authorize(application, stranger) == {}


def test_the_mark_needs_the_attempt(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    stranger = Claim(message_id, message.claim.owner, message.claim.attempt + 1)
    assert arrange.authorize(application, stranger) == {}


def test_a_message_that_ended_gets_no_verdict(owner: Connection, application: Connection) -> None:
    """QUE-03: a work item that comes twice finds its claim gone, and nothing is touched."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert arrange.authorize(application, message.claim) == {}
    assert arrange.row(owner, message_id) == before


def test_a_message_that_is_over_its_time_is_not_sent(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'")
    assert arrange.authorize(application, message.claim)[message_id].word == "expired"
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "expired")
    assert stored["dispatched_at"] is None
    assert stored["attempts"][-1]["outcome"] == "expired"


def test_token_expiry_is_checked_independently_of_delivery_retries(
    owner: Connection, application: Connection
) -> None:
    """The lease is fresh and attempts are left, but the link would be dead: failed, not retried."""
    message_id, token_id = arrange.auth_message(owner)
    [message] = arrange.claim(application)
    assert message.attempts_left > 0
    owner.execute(
        "UPDATE postlease.verification_tokens SET expires_at = now() + interval '4 minutes'"
        " WHERE id = %s",
        [token_id],
    )
    assert arrange.authorize(application, message.claim)[message_id].word == "expired"
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "expired")


def test_a_link_with_enough_life_left_is_sent(owner: Connection, application: Connection) -> None:
    message_id, _ = arrange.auth_message(owner, life=timedelta(minutes=6))
    [message] = arrange.claim(application)
    assert arrange.authorize(application, message.claim)[message_id].word == "go"


@pytest.mark.parametrize("ended", ["superseded_at", "redeemed_at"])
def test_a_mail_whose_token_was_replaced_or_used_is_stopped_while_sending(
    owner: Connection, application: Connection, ended: str
) -> None:
    """RST-08: what is outdated by the time it would leave does not leave."""
    message_id, token_id = arrange.auth_message(owner)
    [message] = arrange.claim(application)
    owner.execute(
        {
            "superseded_at": "UPDATE postlease.verification_tokens SET superseded_at = now()"
            " WHERE id = %s",
            "redeemed_at": "UPDATE postlease.verification_tokens SET redeemed_at = now()"
            " WHERE id = %s",
        }[ended],
        [token_id],
    )
    assert arrange.authorize(application, message.claim)[message_id].word == "superseded"
    assert arrange.row(owner, message_id)["failure_reason"] == "superseded"


@pytest.mark.parametrize("fate", ["claimed", "handed back", "reaped"])
def test_a_note_that_an_account_exists_is_not_sent_when_it_is_gone(
    owner: Connection, application: Connection, fate: str
) -> None:
    """RST-08: nor when it has another address; whatever became of the note meanwhile."""
    user_id = arrange.user(owner, "Ada@example.com")
    message_id = outbox.enqueue_auth(owner, template="account_exists", user_id=user_id)
    [message] = arrange.claim(application)
    owner.execute("DELETE FROM postlease.users WHERE id = %s", [user_id])
    if fate == "handed back":
        outbox.record(application, [outcomes.handed_back(message.claim)])
    elif fate == "reaped":
        arrange.end_lease(owner, message_id)
        assert arrange.reap(application)["undispatched"].returned
    if fate != "claimed":
        arrange.age(owner, message_id, timedelta(hours=1), "available_at")
        [message] = arrange.claim(application, owner="worker-b", suspects=fate == "reaped")
    assert arrange.authorize(application, message.claim)[message_id].word == "superseded"
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "superseded")
    assert stored["dispatched_at"] is None


@pytest.mark.parametrize("email", ["ada@example.com", "Ada.I@Example.com"])
def test_a_note_to_an_account_that_is_there_is_sent(
    owner: Connection, application: Connection, email: str
) -> None:
    user_id = arrange.user(owner, email)
    message_id = outbox.enqueue_auth(owner, template="account_exists", user_id=user_id)
    [message] = arrange.claim(application)
    assert arrange.authorize(application, message.claim)[message_id].word == "go"


def test_another_account_does_not_stand_for_one_that_is_gone(
    owner: Connection, application: Connection
) -> None:
    arrange.user(owner, "bob@example.com")
    user_id = arrange.user(owner)
    message_id = outbox.enqueue_auth(owner, template="account_exists", user_id=user_id)
    [message] = arrange.claim(application)
    owner.execute("DELETE FROM postlease.users WHERE id = %s", [user_id])
    assert arrange.authorize(application, message.claim)[message_id].word == "superseded"


def test_a_producer_s_own_mail_of_that_name_needs_no_account(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner, template="account_exists")
    [message] = arrange.claim(application)
    assert arrange.authorize(application, message.claim)[message_id].word == "go"


def test_other_auth_mail_outlives_the_address_that_it_goes_to(
    owner: Connection, application: Connection
) -> None:
    """Such as a notice to the address that an account had before."""
    user_id = arrange.user(owner)
    message_id = outbox.enqueue_auth(owner, template="address_changed", user_id=user_id)
    [message] = arrange.claim(application)
    owner.execute("DELETE FROM postlease.users WHERE id = %s", [user_id])
    assert arrange.authorize(application, message.claim)[message_id].word == "go"


def test_a_lease_without_room_for_the_call_hands_the_message_back(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application, lease=arrange.NEEDED - timedelta(seconds=1))
    assert arrange.authorize(application, message.claim)[message_id].word == "no_room"
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)
    assert stored["dispatched_at"] is None
    assert arrange.claim(application, owner="worker-b") == [], "not at once: it would loop"
    arrange.age(owner, message_id, timedelta(seconds=11), "available_at")
    [again] = arrange.claim(application, owner="worker-b")
    assert again.attempts_left == arrange.MAX_ATTEMPTS - 1


def test_a_message_that_is_always_too_slow_ends(owner: Connection, application: Connection) -> None:
    """Twice it may have been the machine; from the third time on it is the message, and counts."""
    [message_id] = arrange.enqueue(owner)
    words = []
    for number in range(arrange.MAX_ATTEMPTS + 4):
        arrange.age(owner, message_id, timedelta(seconds=11), "available_at")
        claimed = arrange.claim(application, owner=f"worker-{number}", lease=timedelta(seconds=1))
        if claimed:
            words.append(arrange.authorize(application, claimed[0].claim)[message_id].word)
    assert words == ["no_room"] * (arrange.MAX_ATTEMPTS + 2) + ["attempts_exhausted"]
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "attempts_exhausted")


def test_a_suppressed_recipient_ends_the_message(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    suppress(owner, DIGEST)
    [message] = arrange.claim(application)
    addressees = (outbox.Addressee(DIGEST, is_to=True),)
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id].word == "suppressed"
    assert arrange.row(owner, message_id)["failure_reason"] == "suppressed"


def test_a_suppressed_copy_is_left_out_and_the_rest_goes(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    suppress(owner, OTHER_DIGEST)
    [message] = arrange.claim(application)
    addressees = (
        outbox.Addressee(DIGEST, is_to=True),
        outbox.Addressee(OTHER_DIGEST, is_to=False),
    )
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id] == outbox.Verdict("go", frozenset({OTHER_DIGEST}))


def test_a_suppression_that_ended_holds_nothing_back(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    suppress(owner, DIGEST, expires="-1 second")
    [message] = arrange.claim(application)
    addressees = (outbox.Addressee(DIGEST, is_to=True),)
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id].word == "go"


def test_a_complaint_does_not_suppress_auth_mail(
    owner: Connection, application: Connection
) -> None:
    message_id, _ = arrange.auth_message(owner)
    suppress(owner, DIGEST, reason="complaint")
    [message] = arrange.claim(application)
    addressees = (outbox.Addressee(DIGEST, is_to=True),)
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id].word == "go"


def test_a_complaint_lets_no_auth_mail_pass_a_bounce(
    owner: Connection, application: Connection
) -> None:
    message_id, _ = arrange.auth_message(owner)
    for reason in ("complaint", "bounce"):
        suppress(owner, DIGEST, reason=reason)
    [message] = arrange.claim(application)
    addressees = (outbox.Addressee(DIGEST, is_to=True),)
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id].word == "suppressed"


def test_an_address_that_is_listed_for_several_reasons_is_struck_once(
    owner: Connection, application: Connection
) -> None:
    """It does not stand for the other recipient too."""
    [message_id] = arrange.enqueue(owner, to=["a@example.com", "b@example.com"])
    for reason in ("manual", "bounce"):
        suppress(owner, DIGEST, reason=reason)
    [message] = arrange.claim(application)
    addressees = tuple(outbox.Addressee(digest, is_to=True) for digest in (DIGEST, OTHER_DIGEST))
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id] == outbox.Verdict("go", frozenset({DIGEST}))


def test_a_suppressed_address_strikes_nobody_else(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    suppress(owner, OTHER_DIGEST)
    [message] = arrange.claim(application)
    addressees = (outbox.Addressee(DIGEST, is_to=True),)
    verdicts = arrange.authorize(application, message.claim, addressees=addressees)
    assert verdicts[message_id] == outbox.Verdict("go", frozenset())


def test_each_message_of_a_batch_gets_its_own_verdict(
    owner: Connection, application: Connection
) -> None:
    late, fine = arrange.enqueue(owner, 2)
    claimed = arrange.claim(application, 2)
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() WHERE id = %s", [late])
    verdicts = arrange.authorize(application, *(message.claim for message in claimed))
    assert {key: verdict.word for key, verdict in verdicts.items()} == {late: "expired", fine: "go"}


def test_the_application_runs_no_function_of_anybody_else(
    owner: Connection, application: Connection
) -> None:
    """A better match than the built-in one, in a schema that others may write to, is not found."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    owner.execute(
        "CREATE FUNCTION public.array_position(uuid[], uuid) RETURNS integer LANGUAGE sql"
        " AS $$ SELECT 1 / 0 $$"
    )
    try:
        assert arrange.authorize(application, message.claim)[message_id].word == "go"
    finally:
        owner.execute("DROP FUNCTION public.array_position(uuid[], uuid)")
