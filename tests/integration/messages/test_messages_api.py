"""The API for signed callers: what it answers, what it refuses, what it never shows."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import outbox
from postlease.model import Settlement, event_id
from tests import arrange
from tests.integration.messages.conftest import sample

if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api

UNKNOWN_ID = "evt_01JZ8Q4G7N3V5X9B2D6F8H0K1M"


def failed(owner: Connection, application: Connection, **arguments: Any) -> UUID:
    """A message that its provider refused."""
    [message_id] = arrange.enqueue(owner, **arguments)
    [message] = arrange.dispatch(application)
    outbox.record(
        application,
        [Settlement(message.claim, "failed", "rejected", code="no", failure_reason="rejected")],
    )
    return message_id


def unknown(owner: Connection, application: Connection) -> UUID:
    """A message whose outcome nobody knows."""
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id)
    return message_id


def test_a_message_is_shown_with_its_attempts_and_masked_addresses(
    api: Api, owner: Connection, application: Connection
) -> None:
    message_id = failed(owner, application)
    owner.execute(
        "UPDATE postlease.email_messages SET cc_addresses = '{x@example.net}',"
        " bcc_addresses = '{hidden@example.org}'"
    )
    reply = api.call("GET", f"/v1/messages/{event_id(message_id)}")
    assert reply.status == 200
    shown = reply.json
    stored = arrange.row(owner, message_id)
    assert shown["event_id"] == event_id(message_id)
    assert (shown["status"], shown["reason"], shown["unknown"]) == ("failed", "rejected", False)
    assert (shown["to"], shown["cc"]) == (["r***@example.com"], ["x***@example.net"])
    assert shown["bcc"] == ["h***@example.org"]
    assert (shown["attempt_count"], shown["counted_attempts"]) == (1, 1)
    assert shown["created_at"] == stored["created_at"].isoformat()
    [entry] = shown["attempts"]
    assert (entry["attempt"], entry["outcome"], entry["code"]) == (1, "rejected", "no")
    assert entry["owner"] == "worker-a"


def test_no_answer_holds_an_address_a_parameter_or_a_key(
    api: Api, owner: Connection, application: Connection
) -> None:
    message_id = failed(
        owner,
        application,
        parameters={"order_number": "CANARY-1", "total": "1"},
        idempotency_key="CANARY-2",
    )
    texts = [
        api.call("GET", "/v1/messages").text,
        api.call("GET", f"/v1/messages/{event_id(message_id)}").text,
        api.call("POST", f"/v1/messages/{event_id(message_id)}/retry").text,
    ]
    for text in texts:
        assert event_id(message_id) in text
        assert "reader0" not in text
        assert "CANARY" not in text


def test_what_is_unknown_right_now_is_listed(
    api: Api, owner: Connection, application: Connection
) -> None:
    """As the sample event asks for it."""
    message_id = unknown(owner, application)
    arrange.enqueue(owner)
    reply = api.event(sample("messages-search"))
    [shown] = reply.json["messages"]
    assert (shown["event_id"], shown["unknown"]) == (event_id(message_id), True)
    assert "attempts" not in shown


def test_filters_join(api: Api, owner: Connection, application: Connection) -> None:
    message_id = failed(owner, application)
    arrange.enqueue(owner)
    wanted = {"status": "failed", "reason": "rejected", "template": "receipt"}
    assert [shown["event_id"] for shown in api.found(**wanted)] == [event_id(message_id)]
    assert api.found(**wanted | {"template": "other"}) == []
    made = arrange.row(owner, message_id)["created_at"]
    later = (made + timedelta(milliseconds=1)).isoformat()
    assert len(api.found(status="failed", created_after=made.isoformat())) == 1
    assert api.found(status="failed", created_after=later) == []
    assert len(api.found(status="failed", created_before=later)) == 1
    assert api.found(status="failed", created_before="2026-03-12T09:30:00Z") == []


def test_pages_follow_each_other_and_end(api: Api, owner: Connection) -> None:
    ids = [event_id(message_id) for message_id in arrange.enqueue(owner, 5)]
    pages, query = [], {"limit": 2}
    for _ in range(3):
        reply = api.call("GET", "/v1/messages", **query)
        pages.append([shown["event_id"] for shown in reply.json["messages"]])
        query["cursor"] = reply.json["cursor"]
        arrange.enqueue(owner)  # what is made meanwhile moves nothing
    newest_first = sorted(ids, reverse=True)
    assert pages == [newest_first[:2], newest_first[2:4], newest_first[4:]]
    assert query["cursor"] is None


def test_a_page_that_is_just_full_is_the_last(api: Api, owner: Connection) -> None:
    arrange.enqueue(owner, 2)
    assert api.call("GET", "/v1/messages", limit=2).json["cursor"] is None


def test_a_page_holds_a_hundred_messages_at_most(api: Api, owner: Connection) -> None:
    arrange.enqueue(owner, 101)
    assert len(api.found(limit=100)) == 100
    assert len(api.found()) == 50


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("status", "queued"),
        ("reason", "bored"),
        ("template", "No Such"),
        ("unknown", "yes"),
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "ten"),
        ("limit", "\u0665"),
        ("created_after", "yesterday"),
        ("created_after", "2026-03-12T09:30:00"),
        ("created_before", ""),
        ("cursor", "abc"),
        ("cursor", "\u00fc"),
        ("cursor", ""),
    ],
)
def test_a_parameter_that_is_not_acceptable_is_named(api: Api, parameter: str, value: str) -> None:
    reply = api.call("GET", "/v1/messages", **{parameter: value})
    assert (reply.status, reply.problem) == (422, "invalid-field")
    assert reply.json["errors"][0]["parameter"] == parameter


@pytest.mark.parametrize("query", ["colour=red", "status=failed&status=sent"])
def test_an_unknown_or_doubled_parameter_is_refused(api: Api, query: str) -> None:
    reply = api.event(sample("messages-search") | {"rawQueryString": query})
    assert (reply.status, reply.problem) == (400, "invalid-request")


def test_a_failed_message_is_retried_once(
    api: Api, owner: Connection, application: Connection
) -> None:
    message_id = failed(owner, application)
    path = f"/v1/messages/{event_id(message_id)}/retry"
    reply = api.call("POST", path)
    assert reply.status == 200
    assert (reply.json["status"], reply.json["retry_count"]) == ("pending", 1)
    assert reply.json["counted_attempts"] == 0
    again = api.call("POST", path)
    assert (again.status, again.problem) == (409, "message-not-failed")
    assert arrange.row(owner, message_id)["retry_count"] == 1


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        (b"redacted_at = now()", "message-redacted"),
        (b"failure_reason = 'superseded'", "message-superseded"),
        (b"expires_at = now()", "message-expired"),
    ],
)
def test_what_cannot_be_retried_is_told_why(
    api: Api, owner: Connection, application: Connection, change: bytes, slug: str
) -> None:
    message_id = failed(owner, application)
    owner.execute(b"UPDATE postlease.email_messages SET " + change)
    reply = api.call("POST", f"/v1/messages/{event_id(message_id)}/retry")
    assert (reply.status, reply.problem) == (409, slug)
    assert arrange.row(owner, message_id)["status"] == "failed"


def test_a_message_whose_caller_may_be_alive_says_from_when_on_it_can_have_failed(
    api: Api, owner: Connection, application: Connection
) -> None:
    message_id = unknown(owner, application)
    path = f"/v1/messages/{event_id(message_id)}/resolve"
    reply = api.call("POST", path, {"as": "failed"})
    assert (reply.status, reply.problem) == (409, "message-still-open")
    from_then_on = arrange.row(owner, message_id)["lease_expires_at"] + arrange.GRACE
    assert f"as failed after {from_then_on.isoformat()}, as sent" in reply.json["detail"]
    assert arrange.row(owner, message_id)["status"] == "sending"
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    assert api.call("POST", path, {"as": "failed"}).status == 200


@pytest.mark.parametrize("word", ["sent", "failed"])
def test_an_unknown_message_is_resolved(
    api: Api, owner: Connection, application: Connection, word: str
) -> None:
    message_id = unknown(owner, application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    path = f"/v1/messages/{event_id(message_id)}/resolve"
    reply = api.call("POST", path, {"as": word})
    assert (reply.status, reply.json["status"], reply.json["unknown"]) == (200, word, False)


def test_a_message_whose_outcome_is_known_is_not_resolved(api: Api, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    reply = api.call("POST", f"/v1/messages/{event_id(message_id)}/resolve", {"as": "sent"})
    assert (reply.status, reply.problem) == (409, "message-not-unknown")


@pytest.mark.parametrize(
    ("body", "status"),
    [({"as": "maybe"}, 422), ({"as": 1}, 422), ({}, 422), ({"as": "sent", "by": "me"}, 400)],
)
def test_a_message_is_resolved_as_sent_or_failed_and_nothing_else(
    api: Api, owner: Connection, application: Connection, body: object, status: int
) -> None:
    message_id = unknown(owner, application)
    reply = api.call("POST", f"/v1/messages/{event_id(message_id)}/resolve", body)
    assert reply.status == status
    assert arrange.row(owner, message_id)["status"] == "sending"


@pytest.mark.parametrize("name", ["messages-find", "messages-retry", "messages-resolve"])
def test_a_message_that_does_not_exist_is_not_found(api: Api, name: str) -> None:
    reply = api.event(sample(name))
    assert (reply.status, reply.problem) == (404, "message-unknown")


@pytest.mark.parametrize("spell", [str, lambda message_id: str(message_id).upper()])
def test_a_producer_s_uuid_names_its_message_too(
    api: Api, owner: Connection, application: Connection, spell: Callable[[UUID], str]
) -> None:
    refused, lost = failed(owner, application), unknown(owner, application)
    replies = [
        (refused, api.call("GET", f"/v1/messages/{spell(refused)}")),
        (refused, api.call("POST", f"/v1/messages/{spell(refused)}/retry")),
        (lost, api.call("POST", f"/v1/messages/{spell(lost)}/resolve", {"as": "sent"})),
    ]
    for message_id, reply in replies:
        assert (reply.status, reply.json["event_id"]) == (200, event_id(message_id))


NO_IDS = {
    "too short": "evt_1",
    "lower case": UNKNOWN_ID.lower(),
    "no hyphens": "0197d0b9-20c3-7d61-ab15-b9d2bd0f2a51".replace("-", ""),
    "braces": "{0197d0b9-20c3-7d61-ab15-b9d2bd0f2a51}",
    "a line's end": "0197d0b9-20c3-7d61-ab15-b9d2bd0f2a51\n",
    "hyphens elsewhere": "0197d0b920c3-7d61-ab15-b9d2-bd0f2a51",
    "other digits": "\u0660197d0b9-20c3-7d61-ab15-b9d2bd0f2a5"[:36],
    "a prefixed UUID": "evt_0197d0b9-20c3-7d61-ab15-b9d2bd0f2a51",
}


@pytest.mark.parametrize("given", NO_IDS.values(), ids=NO_IDS.keys())
@pytest.mark.parametrize(
    ("method", "tail"), [("GET", ""), ("POST", "/retry"), ("POST", "/resolve")]
)
def test_an_id_that_is_none_is_told_so(api: Api, method: str, tail: str, given: str) -> None:
    body = {"as": "sent"} if tail == "/resolve" else None
    reply = api.call(method, f"/v1/messages/{given}{tail}", body)
    assert (reply.status, reply.problem) == (400, "invalid-request")
    assert reply.json["errors"][0]["parameter"] == "id"


@pytest.mark.parametrize(
    "name", ["messages-search", "messages-find", "messages-retry", "messages-resolve"]
)
def test_what_is_not_signed_is_not_served_even_if_it_gets_here(api: Api, name: str) -> None:
    event = sample(name)
    del event["requestContext"]["authorizer"]
    reply = api.event(event)
    assert (reply.status, reply.problem) == (403, "forbidden")


def test_logs_name_the_message_and_the_caller_s_role_and_no_address(
    api: Api, owner: Connection, application: Connection, logs: io.StringIO
) -> None:
    """The sample's caller named its session after itself."""
    message_id = failed(owner, application)
    api.call("POST", f"/v1/messages/{event_id(message_id)}/retry")
    [line] = [json.loads(text) for text in logs.getvalue().splitlines() if "retried" in text]
    assert line["event_id"] == event_id(message_id)
    assert line["principal"] == "123456789012:role/support"
    assert line["correlation_id"]
    assert "@" not in logs.getvalue()
