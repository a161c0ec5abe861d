"""Values that JSON can carry and a mail, or PostgreSQL, cannot: refused with their place."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.messages.conftest import RECEIPT, number, pointers, sample, send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection
    from tests.integration.messages.conftest import Api, Reply

WHOLE: dict[str, Any] = {
    "template": "receipt",
    "to": ["ada@example.com", {"email": "grace@example.com", "name": "Grace"}],
    "cc": [{"email": "alan@example.com", "name": "Alan"}],
    "bcc": ["hidden@example.org"],
    "parameters": {
        "order_number": "A-1",
        "total": "12.00",
        "items": [{"quantity": 1, "name": "Pen", "price": "12.00"}],
    },
    "locale": "de",
    "delivery": "at_most_once",
    "send_at": "2126-03-12T09:30:00+01:00",
    "idempotency_key": "receipt-A-1",
    "cancel_scope": "order A-1",
    "from": {"email": "noreply@example.com", "name": "Shop"},
    "reply_to": "help@example.com",
    "tags": {"kind": "receipt"},
}
MARK = "here it is"


def post(api: Api, body: str, **headers: str) -> Reply:
    """The answer to a request for a message whose body is that text."""
    event = sample("messages-search") | {"rawPath": "/v1/messages", "rawQueryString": ""}
    http = event["requestContext"]["http"] | {"method": "POST", "path": "/v1/messages"}
    event["requestContext"] = event["requestContext"] | {"http": http}
    event["headers"] = event["headers"] | {"content-type": "application/json"} | headers
    return api.event(event | {"body": body})


def marked(value: Any, pointer: str = "#") -> Iterator[tuple[str, Any]]:
    """value with a mark in each of its texts and names in turn, and where that is."""
    if isinstance(value, str):
        yield pointer, f"{value}{MARK}"
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for where, changed in marked(inner, f"{pointer}/{place}"):
                yield where, [*value[:place], changed, *value[place + 1 :]]
    elif isinstance(value, dict):
        for name, inner in value.items():
            for where, changed in marked(inner, f"{pointer}/{name}"):
                yield where, value | {name: changed}
            others = {other: kept for other, kept in value.items() if other != name}
            yield f"{pointer}/{name}*", {f"{name}{MARK}": inner} | others


PLACES = list(marked(WHOLE))


def test_the_walk_goes_everywhere() -> None:
    assert len(PLACES) == len({where for where, _ in PLACES}) > 40
    assert "#/parameters/items/0/name" in dict(PLACES)


@pytest.mark.parametrize("half", ["\\u0000", "\\ud83d", "\\udc00"])
def test_nul_and_half_a_character_are_refused_wherever_they_stand(
    api: Api, owner: Connection, half: str
) -> None:
    """TPL-07."""
    for where, body in PLACES:
        reply = post(api, json.dumps(body).replace(MARK, half))
        assert (reply.status, reply.problem) == (400, "invalid-request"), where
        [told] = pointers(reply)
        # The name itself cannot be told; the object that has it can.
        assert told.startswith(where.rstrip("*")), where
    assert number(owner) == 0


@pytest.mark.parametrize("key", ["a\x00b", "a\ud83db"])
def test_a_key_in_the_header_holds_neither(api: Api, owner: Connection, key: str) -> None:
    """TPL-07."""
    reply = post(api, json.dumps(WHOLE), **{"idempotency-key": key})
    assert reply.status == 400
    assert number(owner) == 0


@pytest.mark.parametrize("spelling", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("form", ["{}", "[0, [{}]]", '{{"a": [{{"b": {}}}]}}'])
def test_a_number_that_is_not_finite_is_refused_with_its_place(
    api: Api, owner: Connection, spelling: str, form: str
) -> None:
    """TPL-05."""
    body = json.dumps(RECEIPT | {"parameters": {"total": MARK}})
    reply = post(api, body.replace(f'"{MARK}"', form.format(spelling)))
    assert (reply.status, reply.problem) == (400, "invalid-request")
    [told] = pointers(reply)
    assert told.startswith("#/parameters/total")
    assert number(owner) == 0


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"order_number": "evil.example/login"}, "#/parameters/order_number"),
        ({"items": [{"name": "www.evil.example"}]}, "#/parameters/items/0/name"),
        ({"total": "1" * 61}, "#/parameters/total"),
    ],
)
def test_a_text_that_its_template_does_not_allow_is_a_422_with_its_place(
    api: Api, owner: Connection, members: dict[str, Any], pointer: str
) -> None:
    """TPL-09."""
    reply = send(api, parameters=RECEIPT["parameters"] | members)
    assert (reply.status, reply.problem) == (422, "request-refused")
    assert pointers(reply) == [pointer]
    assert number(owner) == 0


EDGES = [
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T00:00:00Z",
    "0001-01-01T00:00:00+12:00",
    "0001-01-01T00:00:00Z",
    "0001-12-31T23:59:59Z",
    "9999-01-01T00:00:00+12:00",
    "0000-01-01T00:00:00Z",
    "2126-01-01T00:00:00+24:00",
]


@pytest.mark.parametrize("moment", EDGES)
def test_a_moment_that_nobody_could_read_again_is_refused_wherever_it_stands(
    api: Api, owner: Connection, moment: str
) -> None:
    for member in ("send_at", "expires_at"):
        reply = send(api, **{member: moment})
        assert (reply.status, reply.problem, pointers(reply)) == (
            422,
            "invalid-field",
            [f"#/{member}"],
        )
    reply = api.call("PUT", "/v1/suppressions", {"email": "ada@example.com", "expires_at": moment})
    assert (reply.status, pointers(reply)) == (422, ["#/expires_at"])
    for member in ("created_after", "created_before"):
        reply = api.call("POST", "/v1/messages/retry", {"reason": "rejected", member: moment})
        assert (reply.status, pointers(reply)) == (422, [f"#/{member}"])
    assert number(owner) == 0


@pytest.mark.parametrize(
    "moment",
    ["9998-12-31T23:59:59-23:59", "2126-01-01T00:00:00+23:59", "2126-01-01T00:00:00-23:59"],
)
def test_a_moment_of_any_offset_is_taken_and_told(api: Api, owner: Connection, moment: str) -> None:
    sent = send(api, send_at="2026-01-01T00:00:00-23:59", expires_at=moment)
    assert sent.status == 202
    [found] = api.found()
    expected = datetime.fromisoformat(moment)
    assert datetime.fromisoformat(found["expires_at"]) == expected
    reply = api.call("PUT", "/v1/suppressions", {"email": "ada@example.com", "expires_at": moment})
    assert datetime.fromisoformat(reply.json["expires_at"]) == expected
    assert number(owner) == 1


@pytest.mark.parametrize("moment", [*EDGES[:5], "2126-01-01T00:00:00+23:59:59"])
@pytest.mark.parametrize("name", ["created_after", "created_before"])
def test_a_search_takes_any_moment(api: Api, moment: str, name: str) -> None:
    assert api.call("GET", "/v1/messages", **{name: moment}).status in {200, 422}


def test_the_name_of_a_tag_is_not_repeated_where_it_could_be_a_token(
    api: Api, owner: Connection
) -> None:
    reply = send(api, tags={"postlease-" + "k" * 64: "x"})
    assert (reply.status, pointers(reply)) == (422, ["#/tags/..."])
    assert "kkk" not in reply.text
    assert pointers(send(api, tags={"Postlease-kind": "x"})) == ["#/tags/Postlease-kind"]
    assert number(owner) == 0


def test_a_caller_whose_name_no_row_could_hold_is_served_under_its_id(
    api: Api, owner: Connection
) -> None:
    event = sample("messages-search") | {"rawPath": "/v1/messages", "rawQueryString": ""}
    http = event["requestContext"]["http"] | {"method": "POST", "path": "/v1/messages"}
    iam = {"userArn": f"arn:aws:iam::123456789012:user/{'p' * 500}/ada", "callerId": "AIDA1"}
    event["requestContext"] = event["requestContext"] | {"http": http, "authorizer": {"iam": iam}}
    event["headers"] = event["headers"] | {"content-type": "application/json"}
    assert api.event(event | {"body": json.dumps(RECEIPT)}).status == 202
    row = owner.execute("SELECT producer FROM postlease.email_messages").fetchone()
    assert row == {"producer": "123456789012:user/AIDA1"}
