"""Asked for once: by the key of a request, by the key of a message, by whoever asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from postlease import database, messages
from postlease.errors import ConflictError
from tests.integration.messages.conftest import RECEIPT, batch, number, pointers, send

if TYPE_CHECKING:
    from postlease.database import Connection
    from tests.integration.messages.conftest import Api


def test_a_request_repeated_under_its_key_gets_the_first_answer_again(
    api: Api, owner: Connection
) -> None:
    for ask in (send, batch):
        first, second = (ask(api, *([{}] if ask is batch else []), key="k-1") for _ in range(2))
        assert (first.status, second.status) == (202, 202)
        assert first.json == second.json
        assert "idempotent-replayed" not in first.headers
        assert second.headers["idempotent-replayed"] == "true"
    assert number(owner) == 2  # the key belongs to its route


def test_a_request_s_key_with_another_body_is_refused(api: Api, owner: Connection) -> None:
    send(api, key="k-1")
    reply = send(api, key="k-1", to=["eve@example.com"])
    assert (reply.status, reply.problem) == (422, "idempotency-key-reused")
    assert number(owner) == 1


def test_a_refused_request_leaves_no_key(api: Api, owner: Connection) -> None:
    assert send(api, key="k-1", template="no_such").status == 422
    assert send(api, key="k-1").status == 202
    assert send(api, key="k-2", idempotency_key="r-1").status == 202
    assert send(api, key="k-3", idempotency_key="r-1", to=["x@example.com"]).status == 422
    assert send(api, key="k-3", idempotency_key="r-2").status == 202


def test_a_key_that_is_over_is_a_new_one(api: Api, owner: Connection) -> None:
    first = send(api, key="k-1")
    owner.execute("UPDATE postlease.idempotency_keys SET expires_at = now()")
    second = send(api, key="k-1", to=["grace@example.com"])
    assert second.status == 202
    assert second.json != first.json


def test_an_answer_given_stays_given_when_its_template_or_upload_is_gone(
    api: Api, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = send(api, key="k-1")
    monkeypatch.setattr(messages.sending.asking, "read", lambda *_: pytest.fail("looked again"))
    assert send(api, key="k-1").json == first.json
    assert send(api, key="k-1", to=["x@example.com"]).problem == "idempotency-key-reused"


def test_two_callers_with_the_same_keys_and_scopes_do_not_touch_each_other(
    api: Api, owner: Connection
) -> None:
    keys = {"idempotency_key": "r-1", "cancel_scope": "s-1"}
    shop = send(api.by("shop"), key="k-1", **keys)
    bank = send(api.by("bank"), key="k-1", to=["eve@example.com"], **keys)
    assert (shop.status, bank.status) == (202, 202)
    assert shop.json != bank.json
    rows = owner.execute("SELECT producer, status FROM postlease.email_messages ORDER BY 1")
    assert [(row["producer"], row["status"]) for row in rows] == [
        (api.by("bank").principal, "pending"),
        (api.by("shop").principal, "pending"),
    ]


def test_a_message_s_key_answers_the_id_that_exists_by_whichever_route(
    api: Api, owner: Connection
) -> None:
    first = send(api, idempotency_key="r-1")
    again = send(api, idempotency_key="r-1")
    many = batch(api, {"idempotency_key": "r-2"}, {"idempotency_key": "r-1"})
    assert again.json == first.json
    assert many.json["messages"][1] == first.json
    assert number(owner) == 2
    owner.execute(
        "UPDATE postlease.email_messages SET status = 'failed', failure_reason = 'cancelled',"
        " finished_at = now()"
    )
    assert send(api, idempotency_key="r-1").json == first.json


@pytest.mark.parametrize(
    "members",
    [
        {"to": ["eve@example.com"]},
        {"cc": ["eve@example.com"]},
        {"parameters": RECEIPT["parameters"] | {"total": "13.00"}},
        {"to": [{"email": "ada@example.com", "name": "Ada"}]},
        {"locale": "de"},
        {"tags": {"a": "b"}},
        {"reply_to": "help@example.com"},
        {"cancel_scope": "s"},
        {"expires_at": "2126-03-12T09:30:00Z"},
    ],
)
def test_a_message_s_key_with_other_content_is_a_422_at_the_key(
    api: Api, owner: Connection, members: dict[str, Any]
) -> None:
    send(api, idempotency_key="r-1")
    reply = send(api, idempotency_key="r-1", **members)
    assert (reply.status, reply.problem) == (422, "idempotency-key-reused")
    assert pointers(reply) == ["#/idempotency_key"]
    many = batch(api, {}, {"idempotency_key": "r-1"} | members)
    assert pointers(many) == ["#/messages/1/idempotency_key"]
    assert number(owner) == 1


def test_a_newer_message_of_a_scope_supersedes_the_pending_one(api: Api, owner: Connection) -> None:
    older = send(api, cancel_scope="s-1", idempotency_key="r-1")
    newer = send(api, cancel_scope="s-1")
    assert api.call("GET", f"/v1/messages/{older.json['event_id']}").json["reason"] == "superseded"
    send(api, cancel_scope="s-1", idempotency_key="r-1")  # a replay supersedes nothing
    assert api.call("GET", f"/v1/messages/{newer.json['event_id']}").json["status"] == "pending"


def test_equal_requests_at_once_are_one_message(
    api: Api, owner: Connection, application_conninfo: str
) -> None:
    def ask(place: int) -> dict[str, Any]:
        kept = database.Database(lambda *, refresh: application_conninfo)
        try:
            header = "k-1" if place % 2 else None
            body = RECEIPT | {"idempotency_key": "r-1"}
            sent = messages.send(kept, body, producer=api.principal, idempotency_key=header)
        finally:
            kept.discard()
        return sent.response

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert answers == [answers[0]] * 8
    assert number(owner) == 1


def test_a_key_in_use_for_too_long_is_told_so(
    api: Api, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise ConflictError("idempotency-key-in-progress", "still running")

    monkeypatch.setattr("postlease.idempotency.begin", busy)
    reply = send(api, key="k-1")
    assert (reply.status, reply.problem) == (409, "idempotency-key-in-progress")
    assert int(reply.headers["retry-after"]) > 0
    assert number(owner) == 0


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ä"])
def test_a_header_that_is_no_key_is_a_400(api: Api, owner: Connection, key: str) -> None:
    reply = send(api, key=key)
    assert (reply.status, reply.problem) == (400, "invalid-request")
    assert reply.json["errors"][0]["parameter"] == "Idempotency-Key"
    assert number(owner) == 0
