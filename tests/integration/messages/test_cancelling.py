"""A message called back, and many sent once more: each change is guarded as a single one is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import messages, outbox
from postlease.model import Settlement, event_id
from tests import arrange
from tests.integration.messages.conftest import pointers
from tests.integration.messages.test_operating import wait_for_lock_wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api

HOUR = timedelta(hours=1)


def fail(owner: Connection, application: Connection, **arguments: Any) -> UUID:
    """A message that its provider refused."""
    [message_id] = arrange.enqueue(owner, **arguments)
    refuse(application)
    return message_id


def refuse(application: Connection) -> None:
    """The provider refuses what is due."""
    for message in arrange.dispatch(application, 100):
        claim = message.claim
        outbox.record(
            application,
            [Settlement(claim, "failed", "rejected", code="no", failure_reason="rejected")],
        )


def again(api: Api, **members: Any) -> dict[str, Any]:
    """The answer to a retry of many."""
    reply = api.call("POST", "/v1/messages/retry", {"reason": "rejected"} | members)
    assert reply.status == 200, reply.text
    answer: dict[str, Any] = reply.json
    return answer


def test_a_pending_message_is_cancelled_and_not_sent(
    api: Api, owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    reply = api.call("POST", f"/v1/messages/{event_id(message_id)}/cancel")
    assert reply.status == 200
    assert (reply.json["status"], reply.json["reason"]) == ("failed", "cancelled")
    assert reply.json["finished_at"] is not None
    assert arrange.claim(application, 10) == []


@pytest.mark.parametrize("status", ["sending", "dispatched", "sent", "failed"])
def test_only_a_pending_message_is_cancelled(
    owner: Connection, application: Connection, status: str
) -> None:
    if status == "failed":
        message_id = fail(owner, application)
    else:
        [message_id] = arrange.enqueue(owner)
        [message] = arrange.claim(application)
        if status != "sending":
            arrange.authorize(application, message.claim)
        if status == "sent":
            outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert outbox.cancel(application, message_id) == "not_pending"
    assert arrange.row(owner, message_id) == before


def test_one_message_is_cancelled_and_no_other(owner: Connection, application: Connection) -> None:
    wanted, other = arrange.enqueue(owner, 2)
    assert outbox.cancel(application, wanted) == "cancelled"
    assert arrange.row(owner, other)["status"] == "pending"


def test_a_message_that_cannot_be_cancelled_is_a_409_and_one_that_is_not_there_a_404(
    api: Api, owner: Connection, application: Connection
) -> None:
    path = f"/v1/messages/{event_id(fail(owner, application))}/cancel"
    reply = api.call("POST", path)
    assert (reply.status, reply.problem) == (409, "message-not-pending")
    reply = api.call("POST", "/v1/messages/evt_01JZ8Q4G7N3V5X9B2D6F8H0K1M/cancel")
    assert (reply.status, reply.problem) == (404, "message-unknown")


def test_a_claim_that_came_first_is_not_called_back(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """The cancel waits for the claim's commit, and then finds the message being sent."""
    worker, operator = open_application(), open_application()
    [message_id] = arrange.enqueue(owner)
    with ThreadPoolExecutor(1) as threads:
        with worker.transaction():
            [message] = arrange.claim(worker)
            asked = threads.submit(outbox.cancel, operator, message_id)
            wait_for_lock_wait(owner)
        assert asked.result(10) == "not_pending"
    assert outbox.record(worker, [arrange.sent(message.claim)]) == {message_id}
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_cancel_that_came_first_is_not_claimed(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    worker, operator = open_application(), open_application()
    [message_id] = arrange.enqueue(owner)
    with operator.transaction():
        assert outbox.cancel(operator, message_id) == "cancelled"
        assert arrange.claim(worker) == []  # it skips what is locked
    assert arrange.claim(worker) == []
    assert arrange.row(owner, message_id)["failure_reason"] == "cancelled"


def test_many_are_counted_first_and_sent_again_on_confirmation(
    api: Api, owner: Connection, application: Connection
) -> None:
    ids = arrange.enqueue(owner, 3)
    refuse(application)
    [untouched] = arrange.enqueue(owner)
    assert again(api) == {"confirmed": False, "retried": 0, "left": 3}
    assert again(api, confirm=False) == {"confirmed": False, "retried": 0, "left": 3}
    assert arrange.statuses(owner) == {"failed": 3, "pending": 1}
    assert again(api, confirm=True) == {"confirmed": True, "retried": 3, "left": 0}
    rows = [arrange.row(owner, message_id) for message_id in ids]
    assert [(row["status"], row["retry_count"], row["refunded_count"]) for row in rows] == [
        ("pending", 1, 1)
    ] * 3
    assert arrange.row(owner, untouched)["retry_count"] == 0
    assert again(api, confirm=True) == {"confirmed": True, "retried": 0, "left": 0}


def test_one_call_retries_so_many_and_says_how_many_are_left(
    api: Api, owner: Connection, application: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert messages.MOST_RETRIED == 1000
    monkeypatch.setattr(messages.operating, "MOST_RETRIED", 2)
    ids = sorted(arrange.enqueue(owner, 3))
    refuse(application)
    assert again(api, confirm=True) == {"confirmed": True, "retried": 2, "left": 1}
    assert [arrange.row(owner, one)["status"] for one in ids] == ["pending", "pending", "failed"]


def test_many_are_chosen_by_reason_template_and_time(
    api: Api, owner: Connection, application: Connection
) -> None:
    message_id = fail(owner, application)
    owner.execute("UPDATE postlease.email_messages SET created_at = now() - interval '1 day'")
    made = arrange.row(owner, message_id)["created_at"]
    before, after = (made - HOUR).isoformat(), (made + HOUR).isoformat()
    for members, found in (
        ({"reason": "expired"}, 0),
        ({"template": "receipt"}, 1),
        ({"template": "other"}, 0),
        ({"created_after": before, "created_before": after}, 1),
        ({"created_after": after}, 0),
        ({"created_before": before}, 0),
    ):
        assert again(api, **members)["left"] == found, members
    assert again(api, template="other", confirm=True)["retried"] == 0
    assert arrange.row(owner, message_id)["status"] == "failed"


@pytest.mark.parametrize(
    "change",
    [
        b"redacted_at = now()",
        b"failure_reason = 'superseded'",
        b"expires_at = now()",
        b"status = 'sent', failure_reason = NULL, sent_at = now(), provider_message_id = 'x'",
    ],
)
def test_what_a_single_retry_refuses_is_not_among_many(
    api: Api, owner: Connection, application: Connection, change: bytes
) -> None:
    message_id = fail(owner, application)
    owner.execute(b"UPDATE postlease.email_messages SET " + change)
    reason = "superseded" if b"superseded" in change else "rejected"
    before = arrange.row(owner, message_id)
    done = again(api, reason=reason, confirm=True)
    assert done == {"confirmed": True, "retried": 0, "left": 0}
    assert arrange.row(owner, message_id) == before


@pytest.mark.parametrize(
    "change",
    [
        b"superseded_at = now()",
        b"redeemed_at = now()",
        b"expires_at = now() + interval '4 minutes'",
    ],
)
def test_a_mail_whose_link_is_over_is_not_among_many(
    api: Api, owner: Connection, application: Connection, change: bytes
) -> None:
    message_id, _ = arrange.auth_message(owner)
    refuse(application)
    assert again(api)["left"] == 1
    owner.execute(b"UPDATE postlease.verification_tokens SET " + change)
    assert again(api, confirm=True) == {"confirmed": True, "retried": 0, "left": 0}
    assert arrange.row(owner, message_id)["status"] == "failed"


@pytest.mark.parametrize("became", ["pending", "sent", "failed"])
def test_what_failed_before_a_newer_one_of_its_scope_is_not_sent_after_it(
    owner: Connection, application: Connection, became: str
) -> None:
    wanted = outbox.Wanted(reason="rejected")
    older = fail(owner, application, cancel_scope="cart-1")
    [newer] = arrange.enqueue(owner, cancel_scope="cart-1")
    if became == "sent":
        [message] = arrange.dispatch(application)
        outbox.record(application, [arrange.sent(message.claim)])
    elif became == "failed":
        refuse(application)
    assert arrange.row(owner, newer)["status"] == became
    retriable = [newer] if became == "failed" else []
    assert outbox.retry(application, older) == "superseded"
    assert outbox.count_retriable(application, wanted) == len(retriable)
    assert outbox.retry_many(application, wanted, limit=10) == len(retriable)
    assert [arrange.row(owner, one)["retry_count"] for one in (older, *retriable)] == [
        0,
        *(1 for _ in retriable),
    ]


@pytest.mark.parametrize(
    "change",
    [
        b"producer = 'another'",
        b"cancel_scope = 'cart-2'",
        b"cancel_scope = NULL",
        b"failure_reason = 'superseded', status = 'failed', finished_at = now()",
        b"id = '00000000-0000-7000-8000-000000000000'",
    ],
)
def test_what_took_nobody_s_place_hinders_no_retry(
    owner: Connection, application: Connection, change: bytes
) -> None:
    message_id = fail(owner, application, cancel_scope="cart-1")
    [other] = arrange.enqueue(owner, cancel_scope="cart-1")
    owner.execute(b"UPDATE postlease.email_messages SET " + change + b" WHERE id = %s", [other])
    wanted = outbox.Wanted(reason="rejected")
    assert outbox.count_retriable(application, wanted) == 1
    with application.transaction(force_rollback=True):
        assert outbox.retry_many(application, wanted, limit=10) == 1
    assert outbox.retry(application, message_id) == "retried"


def test_two_operators_at_once_retry_many_once(
    owner: Connection, application: Connection, open_application: Callable[[], Connection]
) -> None:
    message_id = fail(owner, application)
    one, other = open_application(), open_application()
    wanted = outbox.Wanted(reason="rejected")
    with ThreadPoolExecutor(1) as threads:
        with one.transaction():
            assert outbox.retry_many(one, wanted, limit=10) == 1
            asked = threads.submit(outbox.retry_many, other, wanted, limit=10)
            wait_for_lock_wait(owner)
        assert asked.result(10) == 0
    assert arrange.row(owner, message_id)["retry_count"] == 1


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"reason": None}, "#/reason"),
        ({"reason": "bored"}, "#/reason"),
        ({"template": "No"}, "#/template"),
        ({"created_after": "yesterday"}, "#/created_after"),
        ({"created_before": 7}, "#/created_before"),
        ({"confirm": "yes"}, "#/confirm"),
        ({"confirm": 1}, "#/confirm"),
    ],
)
def test_a_retry_of_many_that_is_not_well_written_changes_nothing(
    api: Api, owner: Connection, application: Connection, members: dict[str, Any], pointer: str
) -> None:
    fail(owner, application)
    body = {"reason": "rejected", "confirm": True} | members
    reply = api.call("POST", "/v1/messages/retry", body)
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert pointers(reply) == [pointer]
    assert arrange.statuses(owner) == {"failed": 1}
