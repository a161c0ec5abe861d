"""Many messages in one call: all or none, and an error that says which."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from postlease.database import connect
from tests import arrange
from tests.integration.test_enqueue import (
    CANARY,
    REFUSED,
    USUAL,
    ask,
    producer,
    producer_connections,
    producer_logins,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures


def said(value: Any) -> Any:
    """An argument of enqueue_email as JSON says it."""
    if isinstance(value, Jsonb):
        return value.obj
    return value.isoformat() if isinstance(value, datetime) else value


def message(**members: Any) -> dict[str, Any]:
    """A message's members."""
    return {name: said(value) for name, value in (USUAL | members).items()}


def ask_many(connection: Connection, *messages: Any) -> list[UUID]:
    """The ids, whose positions are those of the messages."""
    rows = connection.execute(
        "SELECT * FROM postlease.enqueue_emails(%s)", [Jsonb(list(messages))]
    ).fetchall()
    assert [row["position"] for row in rows] == list(range(len(messages)))
    return [row["id"] for row in rows]


def refusal(connection: Connection, *messages: Any) -> psycopg.errors.Diagnostic:
    """What is said of a batch that is refused."""
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        ask_many(connection, *messages)
    assert "canary" not in f"{caught.value} {caught.value.diag.context}".lower()
    assert caught.value.diag.message_detail is None
    return caught.value.diag


FULL: dict[str, Any] = {
    "cc_addresses": ["bob@example.com"],
    "bcc_addresses": ["cy@example.com"],
    "names": {"ada@example.com": "Ada"},
    "locale": "de",
    "priority": 100,
    "delivery": "at_most_once",
    "send_at": "2040-01-01T12:00:00.5+01:00",
    "expires_at": "2040-01-02T00:00:00Z",
    "idempotency_key": "order-1",
    "cancel_scope": "cart-1",
    "from_address": "shop@example.com",
    "reply_to": "help@example.com",
    "tags": {"shop": "1"},
}


def test_each_message_gets_its_own_row_and_answers_in_order(
    owner: Connection, producer: Connection
) -> None:
    ids = ask_many(producer, *(message(locale=locale) for locale in ("de", "fr", "en", "pt-BR")))
    assert [arrange.row(owner, one)["locale"] for one in ids] == ["de", "fr", "en", "pt-BR"]
    assert {arrange.row(owner, one)["producer"] for one in ids} == {producer.info.user}


def test_a_batch_of_nothing_is_nothing(owner: Connection, producer: Connection) -> None:
    assert ask_many(producer) == []
    assert arrange.statuses(owner) == {}


def test_what_is_not_said_or_null_is_as_enqueue_email_has_it(
    owner: Connection, producer: Connection
) -> None:
    usual = arrange.row(owner, ask(producer))
    nulls = dict.fromkeys(FULL) | {"attachments": None}
    without = {name: value for name, value in message().items() if name != "parameters"}
    for one in ask_many(producer, message(), message(**nulls), without | {"parameters": None}):
        stored = arrange.row(owner, one)
        differing = {name for name, value in usual.items() if stored[name] != value}
        assert differing <= {"id", "created_at", "available_at", "parameters"}


def test_one_message_means_the_same_in_a_batch_and_alone(
    owner: Connection, producer: Connection
) -> None:
    """Whichever came first."""
    alone = {name: Jsonb(v) if isinstance(v, dict) else v for name, v in FULL.items()}
    [batched] = ask_many(producer, message(**FULL))
    assert ask(producer, **alone) == batched
    single = ask(producer, **alone | {"idempotency_key": "order-2", "cancel_scope": None})
    later = FULL | {"idempotency_key": "order-2", "cancel_scope": None}
    assert ask_many(producer, message(**later)) == [single]
    assert arrange.statuses(owner) == {"pending": 2}


def test_the_same_key_and_content_twice_in_a_batch_is_one_message(
    owner: Connection, producer: Connection
) -> None:
    one, other, again = ask_many(
        producer, message(idempotency_key="1"), message(), message(idempotency_key="1")
    )
    assert one == again != other
    assert arrange.statuses(owner) == {"pending": 2}


def test_the_same_key_with_other_content_in_a_batch_is_an_error_that_says_which(
    owner: Connection, producer: Connection
) -> None:
    told = refusal(
        producer,
        message(),
        message(idempotency_key="1"),
        message(idempotency_key="1", locale="de"),
    )
    assert told.constraint_name == "email_messages_idempotency"
    assert (told.message_primary or "").startswith("message 2: ")
    assert arrange.statuses(owner) == {}


def test_a_key_used_before_for_other_content_stops_the_whole_batch(
    owner: Connection, producer: Connection
) -> None:
    ask(producer, idempotency_key="1", locale="de")
    told = refusal(producer, message(), message(idempotency_key="1"))
    assert told.constraint_name == "email_messages_idempotency"
    assert (told.message_primary or "").startswith("message 1: ")
    assert told.sqlstate == "23505"
    assert arrange.statuses(owner) == {"pending": 1}


def test_keys_of_another_producer_do_not_answer(
    owner: Connection, producer_connections: list[Connection]
) -> None:
    shop, club = producer_connections
    ids = [ask_many(one, message(idempotency_key="1")) for one in (shop, club, shop, club)]
    assert ids[0] == ids[2] != ids[1] == ids[3]


def test_a_batch_waits_for_a_key_of_another_session_and_finds_its_message(
    owner: Connection, producer_logins: list[str]
) -> None:
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        found: list[UUID] = []
        racer = threading.Thread(
            target=lambda: found.extend(
                ask_many(second, message(), message(idempotency_key="order-1"))
            )
        )
        with first.transaction():
            made = ask(first, idempotency_key="order-1")
            racer.start()
            wait_until_blocked(owner, second.info.backend_pid)
        racer.join()
    assert found[1] == made != found[0]
    assert arrange.statuses(owner) == {"pending": 2}


def test_a_batch_holds_no_key_while_it_waits_for_one_before_it(
    owner: Connection, producer_logins: list[str]
) -> None:
    """Else two batches with the same keys in two orders would wait for each other."""
    with (
        connect(producer_logins[0]) as first,
        connect(producer_logins[0]) as batch,
        connect(producer_logins[0]) as another,
    ):
        found: list[UUID] = []
        several = [message(idempotency_key=key) for key in ("order-3", "order-1", "order-2")]
        racer = threading.Thread(target=lambda: found.extend(ask_many(batch, *several)))
        another.execute("SET lock_timeout = '1ms'")
        with first.transaction():
            made = ask(first, idempotency_key="order-1")
            racer.start()
            wait_until_blocked(owner, batch.info.backend_pid)
            others = [ask(another, idempotency_key=key) for key in ("order-2", "order-3")]
        racer.join()
    assert found == [others[1], made, others[0]]


@pytest.mark.parametrize(
    "case",
    [case for case in REFUSED if case not in ("parameters JSON null", "two lines of addresses")],
)
def test_a_batch_refuses_what_a_single_call_refuses_and_says_which_message(
    owner: Connection, producer: Connection, case: str
) -> None:
    given, constraint = REFUSED[case]
    told = refusal(producer, message(), message(**{"to_addresses": [CANARY]} | given), message())
    assert told.constraint_name == constraint
    assert (told.message_primary or "").startswith("message 1: ")
    # psql prints it below the error: whose line it was, not our statement.
    assert "SELECT" in (told.context or "")
    assert "INSERT" not in (told.context or "")
    assert arrange.statuses(owner) == {}


def test_the_first_fault_of_a_batch_is_told(producer: Connection) -> None:
    told = refusal(producer, message(), message(locale=""), message(priority=1))
    assert (told.message_primary or "").startswith("message 1: ")


def test_parameters_of_one_byte_too_many_are_refused_by_the_message(producer: Connection) -> None:
    told = refusal(producer, message(), message(parameters={"text": "x" * 65_536}))
    assert told.constraint_name == "email_messages_parameters_size"
    assert (told.message_primary or "").startswith("message 1: ")


@pytest.mark.parametrize("member", ["template", "to_addresses"])
@pytest.mark.parametrize("absent", [True, False])
def test_a_member_that_must_be_there_is_named_when_it_is_not(
    owner: Connection, producer: Connection, member: str, *, absent: bool
) -> None:
    wrong = message() | {member: None}
    if absent:
        del wrong[member]
    told = refusal(producer, message(), wrong)
    assert (told.sqlstate, told.column_name) == ("23502", member)
    assert (told.message_primary or "").startswith("message 1: ")


WRONG_MEMBERS: list[dict[str, Any]] = [
    {"to": [CANARY]},
    {"To_addresses": [CANARY]},
    {CANARY: 1},
    {"token_id": str(UUID(int=1))},
    {"producer": "another"},
    {"id": str(UUID(int=1))},
    {"content_hash": "x"},
    {"status": "sent"},
    {"position": 1},
    *({name: 1} for name in ("template", "locale", "delivery", "idempotency_key", "cancel_scope")),
    *({name: [CANARY]} for name in ("send_at", "expires_at", "from_address", "reply_to")),
    *({name: CANARY} for name in ("to_addresses", "cc_addresses", "bcc_addresses")),
    {"to_addresses": {CANARY: CANARY}},
    {"to_addresses": [[CANARY], ["b@example.com"]]},
    {"cc_addresses": [CANARY, ["b@example.com"]]},
    {"priority": "50"},
    {"priority": True},
]


@pytest.mark.parametrize("wrong", WRONG_MEMBERS, ids=str)
def test_a_member_that_is_unknown_or_of_another_type_is_refused_by_name(
    owner: Connection, producer: Connection, wrong: dict[str, Any]
) -> None:
    told = refusal(producer, message(), message(**wrong))
    assert told.constraint_name == "email_messages_member"
    assert (told.message_primary or "").startswith("message 1: ")
    assert arrange.statuses(owner) == {}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cc_addresses": CANARY}, "cc_addresses is an array of texts"),
        ({"priority": "50"}, "priority is a number"),
        ({"send_at": 1}, "send_at is a text"),
        ({CANARY: 1}, "a member is unknown: there are template, to_addresses, "),
        ({"": 1}, "a member is unknown: there are template, to_addresses, "),
        ({"to_addresses:": 1}, "a member is unknown: there are template, to_addresses, "),
    ],
)
def test_a_member_is_named_if_there_is_one_of_that_name(
    producer: Connection, wrong: dict[str, Any], told: str
) -> None:
    text = refusal(producer, message(**wrong)).message_primary or ""
    assert text.startswith(f"message 0: {told}")
    assert text.endswith(" (email_messages_member)")


@pytest.mark.parametrize("wrong", [[3], ["x"], [None], [[]]], ids=str)
def test_a_message_is_an_object(producer: Connection, wrong: list[Any]) -> None:
    told = refusal(producer, message(), *wrong)
    assert told.constraint_name == "email_messages_batch"
    assert (told.message_primary or "").startswith("message 1: ")


@pytest.mark.parametrize("wrong", [{}, "x", None, 1], ids=json.dumps)
def test_a_batch_is_an_array(producer: Connection, wrong: Any) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        producer.execute("SELECT * FROM postlease.enqueue_emails(%s)", [Jsonb(wrong)])
    assert caught.value.diag.constraint_name == "email_messages_batch"
    with pytest.raises(psycopg.errors.CheckViolation):
        producer.execute("SELECT * FROM postlease.enqueue_emails(NULL)")


@pytest.mark.parametrize(
    "moment",
    [
        "tomorrow",
        "now",
        "2040-01-01",
        "2040-01-01T12:00:00",
        "2040-01-01T12:00:00 Europe/Berlin",
        "2040-02-30T12:00:00Z",
        "2040-01-01T25:00:00Z",
        "2040-01-01T12:00:00+99:00",
        "epoch",
        "",
        "2040-01-01T12:00:00Z\n",
    ],
)
@pytest.mark.parametrize("member", ["send_at", "expires_at"])
def test_a_moment_that_means_another_one_elsewhere_is_refused(
    producer: Connection, member: str, moment: str
) -> None:
    told = refusal(producer, message(), message(**{member: moment}))
    assert told.constraint_name == "email_messages_times_finite"
    assert (told.message_primary or "").startswith("message 1: ")


@pytest.mark.parametrize("priority", [50.5, 1e300, 2**40, -50])
def test_a_priority_that_no_integer_holds_is_refused_by_the_rule(
    producer: Connection, priority: float
) -> None:
    told = refusal(producer, message(priority=priority))
    assert told.constraint_name == "email_messages_priority"


def test_a_time_in_the_past_means_now_in_a_batch_too(
    owner: Connection, producer: Connection
) -> None:
    [past, later] = ask_many(
        producer, message(send_at="1970-01-01T00:00:00Z"), message(send_at="2040-01-01T00:00:00z")
    )
    created = arrange.row(owner, past)["created_at"]
    assert arrange.row(owner, past)["available_at"] == created
    assert arrange.row(owner, later)["available_at"] - created > timedelta(days=365)


def test_the_application_asks_in_the_name_of_its_caller(
    owner: Connection, application: Connection
) -> None:
    """Keys and scopes belong to that name, and what was there before under a key is not new."""
    batch = Jsonb([message(), message(idempotency_key="1", cancel_scope="cart-1")])
    found = [
        application.execute(
            "SELECT * FROM postlease.enqueue_for(%s, %s)", [caller, batch]
        ).fetchall()
        for caller in ("123456789012:role/shop", "123456789012:role/club") * 2
    ]
    assert [[row["is_new"] for row in rows] for rows in found] == [
        [True, True],
        [True, True],
        [True, False],
        [True, False],
    ]
    shop, club, shop_again, club_again = (rows[1]["id"] for rows in found)
    assert shop == shop_again != club == club_again
    assert arrange.row(owner, shop)["producer"] == "123456789012:role/shop"
    assert arrange.statuses(owner) == {"pending": 6}


@pytest.mark.parametrize("nobody", ["", "n" * 256, None])
def test_whoever_asks_for_somebody_says_for_whom(
    application: Connection, nobody: str | None
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        application.execute("SELECT * FROM postlease.enqueue_for(%s, '[]')", [nobody])
    assert caught.value.diag.constraint_name == "email_messages_producer"


def test_a_batch_that_is_rolled_back_mails_nobody(owner: Connection, producer: Connection) -> None:
    with producer.transaction(force_rollback=True):
        ask_many(producer, message(), message())
    assert arrange.statuses(owner) == {}


def test_a_thousand_messages_are_one_call(owner: Connection, producer: Connection) -> None:
    ids = ask_many(
        producer, *(message(to_addresses=[f"r{place}@example.com"]) for place in range(1000))
    )
    assert len(set(ids)) == 1000
    assert arrange.row(owner, ids[777])["to_addresses"] == ["r777@example.com"]
