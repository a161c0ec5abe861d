"""What a producer may say of a message beside whom it is for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests import arrange
from tests.integration.test_enqueue import (
    ask,
    producer,
    producer_connections,
    producer_logins,
)

if TYPE_CHECKING:
    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures


def test_all_that_was_said_stands_in_the_row(owner: Connection, producer: Connection) -> None:
    moment = datetime(2040, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    said: dict[str, Any] = {
        "to_addresses": ["Ada@example.com"],
        "cc_addresses": ["bob@example.com"],
        "bcc_addresses": ["cy@example.com"],
        "locale": "de",
        "priority": 100,
        "delivery": "at_most_once",
        "expires_at": moment,
        "idempotency_key": "order-1",
        "cancel_scope": "cart-1",
        "from_address": "The Shop <shop@example.com>",
        "reply_to": "help@example.com",
    }
    names = {"ada@example.com": 'Ada, "the first"', "cy@example.com": ""}
    message_id = ask(producer, **said, names=Jsonb(names), tags=Jsonb({"Shop_1": "a-B"}))
    stored = arrange.row(owner, message_id)
    assert {name: stored[name] for name in said} == said
    assert (stored["recipient_names"], stored["tags"]) == (names, {"Shop_1": "a-B"})
    assert (stored["attachment_bytes"], stored["max_attempts"]) == (0, None)


def test_a_claim_brings_the_names(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    ask(producer, names=Jsonb({"ada@example.com": "Ada"}))
    [message] = arrange.claim(application)
    assert message.recipient_names == {"ada@example.com": "Ada"}


def test_the_longest_of_everything_is_accepted(producer: Connection) -> None:
    assert ask(
        producer,
        to_addresses=["ada@example.com"],
        names=Jsonb({"ada@example.com": "\u00e4" * 100}),
        tags=Jsonb({f"{place}" + "x" * 255: "x" * 256 for place in range(10)}),
        cancel_scope="s" * 255,
        from_address='"' + "\u00e4" * 128 + '" <shop@example.com>',
        reply_to="\u00e4" * 128 + " <shop@example.com>",
    )


@pytest.mark.parametrize(
    "mailbox",
    [
        "a@b.example",
        "<a@b.example>",
        "A < B <a@b.example>",
        '"" <a@b.example>',
        "\u5c71 <a@b.example>",
    ],
)
def test_a_mailbox_is_what_can_be_sent(producer: Connection, mailbox: str) -> None:
    assert ask(producer, from_address=mailbox, reply_to=mailbox)


def test_a_key_of_before_the_newer_arguments_is_still_that_message_s(
    owner: Connection, producer: Connection
) -> None:
    """The digest is that of the release that knew no names, scopes, senders, tags, attachments."""
    message_id = ask(
        producer,
        idempotency_key="order-1",
        cc_addresses=["bob@example.com"],
        send_at=datetime(2040, 1, 1, tzinfo=UTC),
    )
    row = owner.execute(
        "SELECT m.content_hash = sha256(convert_to(jsonb_build_array("
        " template, to_addresses, parameters, cc_addresses, bcc_addresses, locale,"
        " priority::integer, delivery, extract(epoch FROM available_at),"
        " extract(epoch FROM expires_at))::text, 'UTF8'))"
        " AS same FROM postlease.email_messages AS m WHERE id = %s",
        [message_id],
    ).fetchone()
    assert row == {"same": True}
