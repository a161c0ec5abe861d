"""`postlease.enqueue`: the contract for producers in Python, on a connection of their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import class_row, dict_row, namedtuple_row, scalar_row, tuple_row

import postlease
from postlease.errors import DatabaseError, InvalidInputError, UnavailableError
from tests import arrange
from tests.conftest import ROOT
from tests.integration.test_enqueue import producer, producer_connections, producer_logins

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures

RECEIPT = {"order_number": "A-1", "total": "12.00"}


class Row:
    """A row of the producer's own kind, which knows none of our columns."""


@pytest.mark.parametrize(
    "row_factory", [tuple_row, dict_row, namedtuple_row, scalar_row, class_row(Row)]
)
@pytest.mark.parametrize(
    "cursor_factory", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor]
)
def test_any_connection_of_psycopg_will_do(
    owner: Connection,
    producer_logins: list[str],
    row_factory: Any,
    cursor_factory: type[psycopg.Cursor[Any]],
) -> None:
    """It does not commit, and leaves the connection as it was."""
    with psycopg.connect(
        producer_logins[0], row_factory=row_factory, cursor_factory=cursor_factory
    ) as connection:
        given_up = postlease.enqueue(connection, "receipt", "ada@example.com", RECEIPT)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        assert arrange.statuses(owner) == {}
        connection.rollback()
        message_id = postlease.enqueue(connection, "receipt", "ada@example.com", RECEIPT)
        connection.commit()
        assert connection.row_factory is row_factory
    assert given_up != message_id
    stored = arrange.row(owner, message_id)
    assert (stored["to_addresses"], stored["parameters"]) == (["ada@example.com"], RECEIPT)
    assert arrange.statuses(owner) == {"pending": 1}


def test_it_joins_the_caller_s_transaction_block(owner: Connection, producer: Connection) -> None:
    with producer.transaction():
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            postlease.enqueue(producer, "receipt", "ada@example.com")
            raise ZeroDivisionError
        kept = postlease.enqueue(producer, "receipt", "bob@example.com")
    assert arrange.statuses(owner) == {"pending": 1}
    assert arrange.row(owner, kept)["to_addresses"] == ["bob@example.com"]


def test_every_argument_arrives(owner: Connection, producer: Connection) -> None:
    row = producer.execute("SELECT postlease.attachments_tag() AS tag").fetchone()
    assert row
    reference = postlease.AttachmentReference(
        filename="invoice.pdf",
        content_type="application/pdf",
        storage_ref=f"attachments/uploads/{row['tag']}/1",
        version_id="v1",
        size=3,
        sha256=bytes(range(32)),
        content_id="invoice",
    )
    moments = {
        "send_at": datetime(2040, 1, 1, tzinfo=UTC),
        "expires_at": datetime(2040, 1, 2, tzinfo=UTC),
    }
    said: dict[str, Any] = {
        "locale": "de",
        "priority": 100,
        "delivery": "at_most_once",
        "idempotency_key": "order-1",
        "cancel_scope": "cart-1",
        "reply_to": "help@example.com",
        "tags": {"shop": "1"},
    }
    message_id = postlease.enqueue(
        producer,
        "receipt",
        [postlease.Recipient("Ada@example.com", "Ada"), "bob@example.com"],
        RECEIPT,
        cc=postlease.Recipient("cy@example.com"),
        bcc=("di@example.com",),
        from_address='"The Shop" <shop@example.com>',
        attachments=[reference],
        **moments,
        **said,
    )
    stored = arrange.row(owner, message_id)
    assert {name: stored[name] for name in said} == said
    assert (stored["available_at"], stored["expires_at"]) == tuple(moments.values())
    assert stored["from_address"] == "The Shop <shop@example.com>"
    assert stored["recipient_names"] == {"ada@example.com": "Ada"}
    assert [stored[f"{group}_addresses"] for group in ("to", "cc", "bcc")] == [
        ["Ada@example.com", "bob@example.com"],
        ["cy@example.com"],
        ["di@example.com"],
    ]
    kept = owner.execute("SELECT * FROM postlease.email_attachments").fetchone()
    assert kept
    assert (kept["sha256"], kept["content_id"], kept["owned"]) == (
        bytes(range(32)),
        "invoice",
        True,
    )


def test_a_domain_outside_ascii_is_written_in_a_labels(
    owner: Connection, producer: Connection
) -> None:
    message_id = postlease.enqueue(
        producer,
        "receipt",
        postlease.Recipient(" Ada@B\u00fccher.example", "\u00c4da"),
        from_address="B\u00fccher <shop@b\u00fccher.example>",
        reply_to="help@b\u00fccher.example",
    )
    stored = arrange.row(owner, message_id)
    assert stored["to_addresses"] == ["Ada@xn--bcher-kva.example"]
    assert stored["recipient_names"] == {"ada@xn--bcher-kva.example": "\u00c4da"}
    assert stored["from_address"] == "B\u00fccher <shop@xn--bcher-kva.example>"
    assert stored["reply_to"] == "help@xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"to": "canary"}, "/to/0"),
        ({"to": ["bob@example.com", "canary@example.net, b@example.com"]}, "/to/1"),
        ({"to": postlease.Recipient("Canary <canary@example.net>")}, "/to/0"),
        ({"cc": ['"canary"@example.net']}, "/cc/0"),
        ({"bcc": "kan\u00e4ry@example.net"}, "/bcc/0"),
        ({"from_address": "canary"}, "/from_address"),
        ({"reply_to": "Can\nary <canary@example.net>"}, "/reply_to"),
        ({"send_at": "tomorrow"}, "/send_at"),
        ({"expires_at": date(2040, 1, 1)}, "/expires_at"),
        ({"send_at": datetime(2040, 1, 1)}, "/send_at"),  # noqa: DTZ001 - the fault
        ({"expires_at": datetime(2040, 1, 1)}, "/expires_at"),  # noqa: DTZ001
        ({"parameters": {"canary": object()}}, "/parameters"),
        ({"parameters": {"canary": float("nan")}}, "/parameters"),
        ({"tags": {"canary": b"x"}}, "/tags"),
        ({"idempotency_key": "canary\ud800"}, "/idempotency_key"),
        ({"cancel_scope": "canary\x00"}, "/cancel_scope"),
        ({"locale": "\udfff"}, "/locale"),
    ],
    ids=ascii,
)
def test_what_is_wrong_before_the_database_is_asked_leaves_the_transaction_usable(
    owner: Connection, producer: Connection, given: dict[str, Any], pointer: str
) -> None:
    with producer.transaction():
        with pytest.raises(InvalidInputError) as caught:
            postlease.enqueue(producer, "receipt", **({"to": "ada@example.com"} | given))
        assert caught.value.pointer == pointer
        assert "canary" not in str(caught.value).lower()
        postlease.enqueue(producer, "receipt", "ada@example.com")
    assert arrange.statuses(owner) == {"pending": 1}


def test_what_the_schema_refuses_is_named_by_its_constraint(producer: Connection) -> None:
    with pytest.raises(DatabaseError) as caught:
        postlease.enqueue(producer, "receipt", ["ada@example.com", "ADA@example.com"])
    assert caught.value.constraint == "email_messages_recipients_distinct"
    assert "ada" not in str(caught.value).lower()


def test_a_lone_surrogate_and_a_nul_are_refused_and_not_repeated(producer: Connection) -> None:
    for text in ("can\ud800ary", "can\x00ary"):
        with pytest.raises((DatabaseError, InvalidInputError)) as caught:
            postlease.enqueue(producer, "receipt", "ada@example.com", {"name": text})
        assert "can" not in str(caught.value)


def test_a_database_that_is_gone_is_told_as_unavailable(producer_logins: list[str]) -> None:
    with psycopg.connect(producer_logins[0]) as connection:
        connection.close()
        with pytest.raises(UnavailableError):
            postlease.enqueue(connection, "receipt", "ada@example.com")


IMPORTED: Callable[[str], str] = (
    "import sys; {}; print(*[m for m in ('psycopg', 'postlease.outbox', 'postlease.addresses')"
    " if m in sys.modules])"
).format


@pytest.mark.parametrize(
    ("statement", "imported"),
    [
        ("import postlease", ""),
        ("from postlease import config, errors", ""),
        ("from postlease import enqueue", "postlease.outbox postlease.addresses"),
    ],
)
def test_whoever_does_not_ask_does_not_import_what_asking_needs(
    statement: str, imported: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED(statement)],
        env={"PYTHONPATH": str(ROOT / "layers" / "postlease" / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == imported


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enqueue_all'"):
        postlease.enqueue_all  # type: ignore[attr-defined]  # noqa: B018
