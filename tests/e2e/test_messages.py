"""The API for signed callers through the gateway: signed it serves, unsigned it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from local.stack import Stack
from postlease.model import event_id
from tests import arrange
from tests.e2e.conftest import ask, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    """The product, swept by hand alone."""
    settings = {"SWEEP_LINGER_SECONDS": "0"}
    with Stack(database_url=server_url, settings=settings) as stack:
        yield stack


@pytest.fixture
def rows(product: Stack) -> Iterator[Connection]:
    """The owner's connection to the product's database, with its messages gone."""
    product.provider.inbox.clear()
    product.set_faults("accept")
    with psycopg.connect(product.database_url, autocommit=True, row_factory=dict_row) as owner:
        owner.execute("TRUNCATE postlease.email_messages CASCADE")
        yield owner


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


@pytest.mark.parametrize(
    ("method", "tail"),
    [("GET", ""), ("GET", "/{id}"), ("POST", "/{id}/retry"), ("POST", "/{id}/resolve")],
)
def test_no_route_for_signed_callers_is_served_unsigned(
    product: Stack, rows: Connection, method: str, tail: str
) -> None:
    [message_id] = arrange.enqueue(rows)
    target = f"/v1/messages{tail}".replace("{id}", event_id(message_id))
    body = {"as": "sent"} if tail.endswith("resolve") else None
    before = arrange.row(rows, message_id)
    unsigned = ask(f"{product.url}{target}", method, body)
    assert (unsigned.status, unsigned.json) == (403, {"message": "Forbidden"})
    assert signed(product, method, target, body, key="guessed").status == 403
    assert arrange.row(rows, message_id) == before


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "POST"])
@pytest.mark.parametrize(
    ("target", "status"),
    [("/v1/messages", 405), ("/v1/messages/", 404), ("/v1/messages/x/y/z", 404)],
)
def test_whatever_else_is_asked_there_is_served_to_nobody(
    product: Stack, method: str, target: str, status: int
) -> None:
    answer = ask(f"{product.url}{target}", method)
    assert answer.status == status
    assert answer.headers.get("allow") == ("GET, OPTIONS" if status == 405 else None)


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "get"])
def test_a_method_that_nobody_knows_is_answered_by_the_function(
    product: Stack, method: str
) -> None:
    answer = ask(f"{product.url}/healthz", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, OPTIONS")
