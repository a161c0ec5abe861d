"""What a message says is held to its rules by the table itself, at birth and at each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from postlease import outbox
from tests import arrange

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

BORN: dict[str, Any] = {
    "template": "receipt",
    "to_addresses": ["canary@example.net"],
    "producer": "shop",
}

# The rule's name, and what breaks it and no other rule.
BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "a capital in template": ("template_shape", {"template": "Receipt"}),
    "a long template": ("template_shape", {"template": "a" * 65}),
    "an underscore in locale": ("locale_shape", {"locale": "de_DE"}),
    "parameters that are an array": ("parameters_object", {"parameters": Jsonb([])}),
    "parameters that are null": ("parameters_object", {"parameters": Jsonb(None)}),
    "tags that are an array": ("tags_object", {"tags": Jsonb([])}),
    "names that are an array": ("names_object", {"recipient_names": Jsonb([])}),
    "nobody": ("recipient_count", {"to_addresses": [], "cc_addresses": ["canary@example.net"]}),
    "fifty-one recipients": (
        "recipient_count",
        {"bcc_addresses": [f"canary{number}@example.net" for number in range(50)]},
    ),
    "recipients in two dimensions": (
        "recipients_flat",
        {"to_addresses": [["a@example.net", "b@example.net"]]},
    ),
    "copies in two dimensions": (
        "recipients_flat",
        {"cc_addresses": [["a@example.net", "b@example.net"]]},
    ),
    "blind copies in two dimensions": (
        "recipients_flat",
        {"bcc_addresses": [["a@example.net", "b@example.net"]]},
    ),
    "a token's template without one": ("token_template", {"template": "verify_email"}),
    "a class between others": ("priority", {"priority": 49}),
    "another policy": ("delivery", {"delivery": "at_best"}),
    "an empty key": ("key_length", {"idempotency_key": "", "content_hash": bytes(32)}),
    "a long key": ("key_length", {"idempotency_key": "k" * 256, "content_hash": bytes(32)}),
    "a key without its content's hash": ("key_hashed", {"idempotency_key": "k"}),
    "a hash without a key": ("key_hashed", {"content_hash": bytes(32)}),
    "an empty scope": ("scope_length", {"cancel_scope": ""}),
    "a long scope": ("scope_length", {"cancel_scope": "s" * 256}),
    "a size below nothing": ("attachment_bytes", {"attachment_bytes": -1}),
    "long parameters": ("parameters_size", {"parameters": Jsonb({"a": "x" * 65_536})}),
    "no address": ("recipient_shape", {"to_addresses": ["canary"]}),
    "an address twice": ("recipients_distinct", {"cc_addresses": ["CANARY@example.net"]}),
}
INSERT: LiteralString = "INSERT INTO postlease.email_messages ({}) VALUES ({})"
UPDATE: LiteralString = "UPDATE postlease.email_messages SET {} WHERE id = {}"


def insert(owner: Connection, given: dict[str, Any]) -> None:
    """Write one row as no producer could."""
    names, values = map(sql.Identifier, given), map(sql.Placeholder, given)
    owner.execute(
        sql.SQL(INSERT).format(sql.SQL(", ").join(names), sql.SQL(", ").join(values)), given
    )


def change(owner: Connection, message_id: UUID, given: dict[str, Any]) -> None:
    """Set columns of one row."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in given
    )
    owner.execute(sql.SQL(UPDATE).format(columns, sql.Literal(message_id)), given)


def test_what_breaks_no_rule_is_taken_at_birth_and_later(owner: Connection) -> None:
    """So that each row below is refused for what it adds."""
    insert(owner, BORN)
    [message_id] = arrange.enqueue(owner)
    change(owner, message_id, BORN | {"idempotency_key": "k", "content_hash": bytes(32)})


@pytest.mark.parametrize("case", BROKEN)
def test_broken_content_is_refused_at_birth_by_its_name(owner: Connection, case: str) -> None:
    rule, given = BROKEN[case]
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert(owner, BORN | given)
    assert caught.value.diag.constraint_name == f"email_messages_{rule}"
    assert "canary" not in str(caught.value).lower()


@pytest.mark.parametrize("case", BROKEN)
def test_content_that_breaks_later_is_refused_by_its_name(owner: Connection, case: str) -> None:
    rule, given = BROKEN[case]
    [message_id] = arrange.enqueue(owner, to=["canary@example.net"])
    before = arrange.row(owner, message_id)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        change(owner, message_id, given)
    assert caught.value.diag.constraint_name == f"email_messages_{rule}"
    assert "canary" not in str(caught.value).lower()
    assert arrange.row(owner, message_id) == before


def test_a_token_on_another_template_is_refused(owner: Connection) -> None:
    token_id = arrange.token(owner, arrange.user(owner))
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert(owner, BORN | {"token_id": token_id})
    assert caught.value.diag.constraint_name == "email_messages_token_template"
    [message_id] = arrange.enqueue(owner)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        change(owner, message_id, {"token_id": token_id})
    assert caught.value.diag.constraint_name == "email_messages_token_template"


@pytest.mark.parametrize("column", ["to_addresses", "cc_addresses", "bcc_addresses"])
def test_a_token_s_mail_is_born_for_one_reader(owner: Connection, column: str) -> None:
    token_id = arrange.token(owner, arrange.user(owner))
    more = {column: [*BORN.get(column, []), "second@example.net"]}
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        insert(owner, BORN | more | {"template": "verify_email", "token_id": token_id})
    assert caught.value.diag.constraint_name == "email_messages_token_alone"


def test_the_three_updates_that_send_a_message_ask_none_of_it_again(
    owner: Connection, application: Connection
) -> None:
    """A rule for new messages does not hold up those that were taken before it."""
    [message_id] = arrange.enqueue(owner)
    owner.execute("ALTER TABLE postlease.email_messages DISABLE TRIGGER USER")
    try:
        change(owner, message_id, {"locale": "de_DE"})
    finally:
        owner.execute("ALTER TABLE postlease.email_messages ENABLE TRIGGER USER")
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    assert arrange.row(owner, message_id)["status"] == "sent"
