"""The API for signed callers through the gateway: signed it serves, unsigned it does not."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from postlease.model import event_id
from tests import arrange
from tests.e2e.conftest import ask, signed

if TYPE_CHECKING:
    from local.stack import Stack
    from postlease.database import Connection


@pytest.fixture
def product(swept_by_hand: Stack) -> Stack:
    """The product, swept by hand alone."""
    return swept_by_hand


@pytest.fixture
def rows(emptied: Connection) -> Connection:
    """The owner's connection to the product's database, with its messages gone."""
    return emptied


def test_a_refused_message_is_found_retried_and_sent_by_a_signed_caller(
    product: Stack, rows: Connection
) -> None:
    [message_id] = arrange.enqueue(rows)
    product.set_faults("reject", times=1)
    product.invoke("sweep")
    found = signed(product, "GET", "/v1/messages?status=failed&limit=10")
    assert found.status == 200
    [shown] = found.json["messages"]
    assert (shown["event_id"], shown["to"]) == (event_id(message_id), ["r***@example.com"])
    path = f"/v1/messages/{event_id(message_id)}"
    assert signed(product, "POST", f"{path}/retry").json["status"] == "pending"
    product.invoke("sweep")
    assert signed(product, "GET", path).json["status"] == "sent"
    assert len(product.inbox()) == 1


def test_an_unknown_message_is_found_and_resolved_by_a_signed_caller(
    product: Stack, rows: Connection
) -> None:
    [message_id] = arrange.enqueue(rows)
    product.set_faults("lose_response", times=1)
    product.invoke("sweep")
    arrange.end_lease(rows, message_id)
    [shown] = signed(product, "GET", "/v1/messages?unknown=true").json["messages"]
    path = f"/v1/messages/{shown['event_id']}/resolve"
    assert signed(product, "POST", path, {"as": "sent"}).json["status"] == "sent"
    assert signed(product, "POST", path, {"as": "sent"}).status == 409


def test_a_message_with_an_upload_asked_for_by_a_signed_caller_arrives(
    product: Stack, rows: Connection
) -> None:
    content = b"%PDF-1.7 receipt"
    about = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    place = signed(product, "POST", "/v1/attachments", {"filename": "a b.pdf"} | about)
    assert place.status == 201
    wanted = place.json["upload"]
    assert ask(wanted["url"], wanted["method"], content, **wanted["headers"]).status == 200
    message = {
        "template": "receipt",
        "to": [{"email": "ada@example.com", "name": "Ada, Countess"}],
        "bcc": ["hidden@example.com"],
        "parameters": {"order_number": "A-1", "total": "1.00"},
        "attachments": [{"storage_ref": place.json["storage_ref"], "filename": "a b.pdf"}],
    }
    taken = signed(product, "POST", "/v1/messages", message)
    assert taken.status == 202
    assert signed(product, "POST", "/v1/messages", message).status == 422  # the upload has its own
    product.invoke("sweep")
    [mail] = product.inbox()
    assert (mail["to"], mail["bcc"]) == (["ada@example.com"], ["hidden@example.com"])
    [attached] = mail["attachments"]
    assert (attached["filename"], attached["size"]) == ("a b.pdf", len(content))
    found = signed(product, "GET", f"/v1/messages/{taken.json['event_id']}")
    assert found.json["status"] == "sent"


def test_a_batch_is_cancelled_one_by_one_and_an_operator_s_entry_holds_mail_back(
    product: Stack, rows: Connection
) -> None:
    parameters = {"order_number": "A-1", "total": "1.00"}
    wanted = [
        {"template": "receipt", "to": [f"{name}@example.com"], "parameters": parameters}
        for name in ("ada", "grace", "alan")
    ]
    taken = signed(product, "POST", "/v1/messages/batch", {"messages": wanted})
    ids = [one["event_id"] for one in taken.json["messages"]]
    assert signed(product, "POST", f"/v1/messages/{ids[0]}/cancel").json["reason"] == "cancelled"
    entry = signed(product, "PUT", "/v1/suppressions", {"email": "GRACE@example.com"}).json
    product.invoke("sweep")
    assert [mail["to"] for mail in product.inbox()] == [["alan@example.com"]]
    reasons = [signed(product, "GET", f"/v1/messages/{one}").json["reason"] for one in ids]
    assert reasons == ["cancelled", "suppressed", None]
    assert signed(product, "DELETE", f"/v1/suppressions/{entry['id']}").status == 204
    retry = {"reason": "suppressed", "confirm": True}
    assert signed(product, "POST", "/v1/messages/retry", retry).json["retried"] == 1
    product.invoke("sweep")
    assert len(product.inbox()) == 2
    assert signed(product, "GET", "/v1/stats").json["last_day"]["sent"] == 2


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/messages", None),
        ("POST", "/v1/messages", {}),
        ("POST", "/v1/messages/batch", {}),
        ("POST", "/v1/messages/retry", {"reason": "rejected", "confirm": True}),
        ("GET", "/v1/messages/{id}", None),
        ("GET", "/v1/messages/{id}/recipients", None),
        ("POST", "/v1/messages/{id}/retry", None),
        ("POST", "/v1/messages/{id}/cancel", None),
        ("POST", "/v1/messages/{id}/resolve", {"as": "sent"}),
        ("GET", "/v1/stats", None),
        ("POST", "/v1/attachments", {}),
        ("GET", "/v1/suppressions", None),
        ("PUT", "/v1/suppressions", {"email": "ada@example.com"}),
        ("POST", "/v1/suppressions/lookup", {"email": "ada@example.com"}),
        ("DELETE", f"/v1/suppressions/{'0' * 64}", None),
        ("GET", "/v1/gates", None),
        ("GET", "/v1/gates/ses", None),
        ("PUT", "/v1/gates/ses", {"state": "paused", "reason": "guessed"}),
    ],
)
def test_no_route_for_signed_callers_is_served_unsigned(
    product: Stack, rows: Connection, method: str, target: str, body: object
) -> None:
    [message_id] = arrange.enqueue(rows)
    target = target.replace("{id}", event_id(message_id))
    before = arrange.row(rows, message_id)
    unsigned = ask(f"{product.url}{target}", method, body)
    assert (unsigned.status, unsigned.json) == (403, {"message": "Forbidden"})
    assert signed(product, method, target, body, key="guessed").status == 403
    assert arrange.row(rows, message_id) == before


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    ("target", "allow"),
    [
        ("/v1/messages", "GET, OPTIONS, POST"),
        ("/v1/messages/batch", "OPTIONS, POST"),
        ("/v1/attachments", "OPTIONS, POST"),
        ("/v1/messages/", None),
        ("/v1/messages/x/y/z", None),
    ],
)
def test_whatever_else_is_asked_there_is_served_to_nobody(
    product: Stack, method: str, target: str, allow: str | None
) -> None:
    answer = ask(f"{product.url}{target}", method)
    assert answer.status == (405 if allow else 404)
    assert answer.headers.get("allow") == allow


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "get"])
def test_a_method_that_nobody_knows_is_answered_by_the_function(
    product: Stack, method: str
) -> None:
    answer = ask(f"{product.url}/healthz", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, OPTIONS")
