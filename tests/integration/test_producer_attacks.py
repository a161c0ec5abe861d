"""What a producer that means harm can make part of its mail: nothing that is not its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests import arrange
from tests.integration.test_enqueue import ask, producer, producer_connections, producer_logins
from tests.integration.test_enqueue_attachments import attachment, refused, shared, tag, upload
from tests.integration.test_enqueue_batches import ask_many, message, refusal

if TYPE_CHECKING:
    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures


@pytest.mark.parametrize("template", ["verify_email", "reset_password"])
def test_no_live_token_goes_out_with_a_producer_s_mail(
    owner: Connection, producer: Connection, template: str
) -> None:
    _, token_id = arrange.auth_message(owner)
    before = arrange.statuses(owner)
    for members in ({}, {"parameters": {"token_id": str(token_id)}}):
        told = refusal(producer, message(template=template, **members))
        assert told.constraint_name == "email_messages_token_template"
    told = refusal(producer, message(token_id=str(token_id)))
    assert told.constraint_name == "email_messages_member"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        producer.execute(
            "SELECT postlease.enqueue_auth_email('verify_email', u.id, %s)"
            " FROM (VALUES (gen_random_uuid())) AS u (id)",
            [token_id],
        )
    assert arrange.statuses(owner) == before


@pytest.mark.parametrize("priority", [0, -1, 49])
def test_no_producer_goes_ahead_of_auth_mail(producer: Connection, priority: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        ask(producer, priority=priority)
    told = refusal(producer, message(priority=priority))
    assert told.constraint_name == "email_messages_priority"


def test_no_producer_s_file_goes_out_with_another_s_mail(
    owner: Connection, producer_connections: list[Connection]
) -> None:
    """Neither an upload that waits, nor one that is a message's, nor what is kept."""
    shop, club = producer_connections
    ask(club, attachments=Jsonb([upload(club, "used")]))
    kept = attachment(f"attachments/kept/{tag(club)}/logo")
    for theirs in (upload(club, "used"), upload(club, "waiting"), kept):
        refused(shop, [theirs], "email_attachments_producer_prefix")
        refused(shop, [*shared(1), theirs], "email_attachments_producer_prefix")
    assert arrange.statuses(owner) == {"pending": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM postlease.enqueue_for('{other}', '[]')",
        "SELECT postlease.broken_attachments('{other}', '[]')",
        "SET SESSION AUTHORIZATION {other}",
        "SET ROLE {other}",
        "SET ROLE postlease_application",
        "SELECT idempotency_key FROM postlease.email_messages",
        "SELECT storage_ref FROM postlease.email_attachments",
        "SELECT key_id FROM postlease.verification_tokens",
        "INSERT INTO postlease.email_messages (producer) VALUES ('{other}')",
        "ALTER FUNCTION postlease.enqueue_emails(jsonb) OWNER TO {name}",
        "CREATE FUNCTION postlease.enqueue_emails(text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ],
)
def test_no_producer_speaks_for_another_or_reads_its_messages(
    producer_connections: list[Connection], statement: str
) -> None:
    shop, club = producer_connections
    written = statement.format(other=club.info.user, name=shop.info.user)
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType)):
        shop.execute(cast("LiteralString", written))


def test_a_batch_is_its_login_s_whatever_role_is_set(
    owner: Connection, producer: Connection
) -> None:
    with producer.transaction():
        producer.execute("SET LOCAL ROLE postlease_producer")
        [message_id] = ask_many(producer, message(attachments=[upload(producer)]))
    assert arrange.row(owner, message_id)["producer"] == producer.info.user


def test_no_settings_or_objects_of_the_caller_change_what_happens_inside(
    owner: Connection, producer: Connection
) -> None:
    """SECURITY DEFINER: what is the caller's must not be found before ours."""
    said: dict[str, Any] = {
        "idempotency_key": "1",
        "cancel_scope": "cart-1",
        "send_at": "2040-01-01T12:00:00+02:00",
        "attachments": [upload(producer)],
    }
    [first] = ask_many(producer, message(**said))
    for name in ("email_messages", "email_attachments", "pg_proc", "jsonb_each"):
        producer.execute(f"CREATE TEMPORARY TABLE {name} (id uuid)".encode())
    for function in (
        "session_user_is()",
        "sha256(bytea)",
        "lower(text)",
        "refuse_message(text, int)",
    ):
        producer.execute(
            f"CREATE FUNCTION pg_temp.{function} RETURNS text"
            " LANGUAGE sql AS 'SELECT NULL::text'".encode()
        )
    for setting in (
        "search_path = pg_temp, public, pg_catalog",
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'German, DMY'",
        "bytea_output = 'escape'",
        "intervalstyle = 'iso_8601'",
        "extra_float_digits = -15",
        "plan_cache_mode = 'force_custom_plan'",
    ):
        producer.execute(f"SET {setting}".encode())
    again = {
        name: Jsonb(value) if isinstance(value, list) else value for name, value in said.items()
    }
    assert ask(producer, **again) == first
    assert ask_many(producer, message(**said)) == [first]
    told = refusal(producer, message(**said | {"locale": "de"}))
    assert told.constraint_name == "email_messages_idempotency"
    assert arrange.statuses(owner) == {"pending": 1}


@pytest.mark.parametrize("smuggled", ["a@x,b@evil.example", "a@x\nBcc:b@evil.example"])
def test_no_reading_of_backslashes_makes_two_addresses_of_one(
    owner: Connection, producer: Connection, smuggled: str
) -> None:
    """Where strings have escapes, the dot of a pattern would be any character."""
    producer.execute("SET standard_conforming_strings = off")
    for members in ({"to_addresses": [smuggled]}, {"reply_to": smuggled}):
        for call in (
            lambda said: ask(producer, **said),
            lambda said: ask_many(producer, message(**said)),
        ):
            with pytest.raises(psycopg.Error) as caught:
                call(members)
            assert caught.value.sqlstate == "23514"
            assert (caught.value.diag.constraint_name or "").endswith("_shape")
    ask(producer, reply_to="Ada <ada@example.com>")
    assert arrange.statuses(owner) == {"pending": 1}


def test_a_sender_that_is_not_listed_is_the_deployment_s_to_refuse(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    """The schema knows no list; the row carries what was asked for, and delivery compares."""
    message_id = ask(producer, from_address="Boss <boss@example.net>")
    [claimed] = arrange.claim(application)
    assert (claimed.claim.message_id, claimed.from_address) == (
        message_id,
        "Boss <boss@example.net>",
    )
