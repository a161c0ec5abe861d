"""The producers' contract: one call, in the producer's own transaction, on its own connection."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString, cast
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from postlease import outbox
from postlease.database import Connection, connect
from postlease.errors import DatabaseError
from tests import arrange, producers

if TYPE_CHECKING:
    from collections.abc import Iterator

USUAL: dict[str, Any] = {
    "template": "receipt",
    "to_addresses": ["ada@example.com"],
    "parameters": Jsonb({"order_number": "A-1", "total": "12.00"}),
}
CASTS = {"to_addresses": "text[]", "cc_addresses": "text[]", "bcc_addresses": "text[]"}


def ask(connection: Connection, **arguments: Any) -> UUID:
    """Call enqueue_email with the arguments as given, NULL included."""
    given = USUAL | arguments
    named = ", ".join(f"{name} => %({name})s::{CASTS.get(name, TYPES[name])}" for name in given)
    statement = cast("LiteralString", f"SELECT postlease.enqueue_email({named}) AS id")
    row = connection.execute(statement, given).fetchone()
    assert row
    return UUID(str(row["id"]))


TYPES = {
    "template": "text",
    "to_addresses": "text[]",
    "parameters": "jsonb",
    "cc_addresses": "text[]",
    "bcc_addresses": "text[]",
    "names": "jsonb",
    "locale": "text",
    "priority": "integer",
    "delivery": "text",
    "send_at": "timestamptz",
    "expires_at": "timestamptz",
    "idempotency_key": "text",
    "cancel_scope": "text",
    "from_address": "text",
    "reply_to": "text",
    "tags": "jsonb",
    "attachments": "jsonb",
}


def addresses(number: int, name: str) -> list[str]:
    """Number different addresses."""
    return [f"{name}{place}@example.com" for place in range(number)]


@pytest.fixture(scope="module")
def producer_logins(owner_url: str) -> Iterator[list[str]]:
    with producers.login(owner_url) as shop, producers.login(owner_url) as club:
        yield [shop, club]


@pytest.fixture
def producer_connections(
    owner: Connection, producer_logins: list[str]
) -> Iterator[list[Connection]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(login)) for login in producer_logins]


@pytest.fixture
def producer(producer_connections: list[Connection]) -> Connection:
    return producer_connections[0]


def test_the_id_that_comes_back_names_the_pending_message(
    owner: Connection, producer: Connection
) -> None:
    stored = arrange.row(owner, ask(producer))
    assert (stored["status"], stored["priority"], stored["delivery"]) == (
        "pending",
        50,
        "at_least_once",
    )
    assert stored["attempt_count"] == 0
    assert stored["to_addresses"] == ["ada@example.com"]


def test_a_transaction_that_is_rolled_back_mails_nobody(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    with producer.transaction(force_rollback=True):
        ask(producer)
        assert arrange.claim(application) == []
    assert arrange.statuses(owner) == {}


def test_a_message_exists_from_the_commit_of_its_producer_on(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    with producer.transaction():
        message_id = ask(producer)
        assert arrange.claim(application) == []
        assert producer.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    assert [m.claim.message_id for m in arrange.claim(application)] == [message_id]


def test_enqueue_runs_on_the_connection_and_in_the_transaction_of_its_caller(
    owner: Connection, application: Connection
) -> None:
    """QUE: a second connection would not see the caller's uncommitted work, nor share its end."""
    with application.transaction(force_rollback=True):
        [message_id] = arrange.enqueue(application)
        row = application.execute(
            "SELECT xmin::text = pg_current_xact_id()::xid::text AS ours"
            " FROM postlease.email_messages WHERE id = %s",
            [message_id],
        ).fetchone()
        assert row == {"ours": True}
    assert arrange.statuses(owner) == {}


def test_the_recipients_are_those_of_the_moment_of_asking(
    owner: Connection, application: Connection
) -> None:
    user_id = arrange.user(owner, "before@example.com")
    message_id = outbox.enqueue_auth(application, template="account_exists", user_id=user_id)
    owner.execute(
        "UPDATE postlease.users SET email = 'after@example.com',"
        " email_canonical = 'after@example.com' WHERE id = %s",
        [user_id],
    )
    assert arrange.row(owner, message_id)["to_addresses"] == ["before@example.com"]


def test_the_same_key_and_content_is_the_same_message(
    owner: Connection, producer: Connection
) -> None:
    first = ask(producer, idempotency_key="order-1")
    assert ask(producer, idempotency_key="order-1") == first
    assert arrange.statuses(owner) == {"pending": 1}


def test_the_same_moment_in_another_time_zone_is_the_same_content(producer: Connection) -> None:
    moment = datetime(2040, 1, 1, 12, tzinfo=UTC)
    times = {"send_at": moment, "expires_at": moment + timedelta(days=1)}
    first = ask(producer, idempotency_key="order-1", **times)
    producer.execute("SET timezone = 'Asia/Kathmandu'")
    again = ask(producer, idempotency_key="order-1", **times)
    assert again == first


@pytest.mark.parametrize(
    "other",
    [
        {"template": "reminder"},
        {"to_addresses": ["bob@example.com"]},
        {"cc_addresses": ["bob@example.com"]},
        {"bcc_addresses": ["bob@example.com"]},
        {"parameters": Jsonb({"order_number": "A-2", "total": "12.00"})},
        {"locale": "de"},
        {"priority": 100},
        {"delivery": "at_most_once"},
        {"send_at": datetime(2040, 1, 1, tzinfo=UTC)},
        {"expires_at": datetime(2040, 1, 1, tzinfo=UTC)},
        {"names": Jsonb({"ada@example.com": "Ada"})},
        {"cancel_scope": "order-1"},
        {"from_address": "shop@example.com"},
        {"reply_to": "shop@example.com"},
        {"tags": Jsonb({"shop": "1"})},
    ],
    ids=lambda other: next(iter(other)),
)
def test_the_same_key_with_other_content_is_an_error_and_changes_nothing(
    owner: Connection, producer: Connection, other: dict[str, Any]
) -> None:
    first = ask(producer, idempotency_key="order-1")
    before = arrange.row(owner, first)
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        ask(producer, idempotency_key="order-1", **other)
    assert caught.value.diag.constraint_name == "email_messages_idempotency"
    assert arrange.row(owner, first) == before
    assert arrange.statuses(owner) == {"pending": 1}


def test_the_package_names_the_constraint_of_a_reused_key(
    owner: Connection, application: Connection
) -> None:
    arrange.enqueue(application, idempotency_key="order-1")
    with pytest.raises(DatabaseError) as caught:
        arrange.enqueue(application, idempotency_key="order-1", locale="de")
    assert caught.value.constraint == "email_messages_idempotency"
    assert caught.value.sqlstate == "23505"


def test_two_producers_may_use_the_same_key(
    owner: Connection, producer_connections: list[Connection]
) -> None:
    shop, club = producer_connections
    ids = [
        ask(shop, idempotency_key="1"),
        ask(club, idempotency_key="1", to_addresses=["bob@example.com"]),
    ]
    assert ids[0] != ids[1]
    assert ask(shop, idempotency_key="1") == ids[0]
    assert ask(club, idempotency_key="1", to_addresses=["bob@example.com"]) == ids[1]
    assert [arrange.row(owner, message_id)["producer"] for message_id in ids] == [
        shop.info.user,
        club.info.user,
    ]


def test_two_sessions_racing_on_one_key_make_one_message(
    owner: Connection, producer_logins: list[str]
) -> None:
    """The second waits for the first's commit and then finds its message."""
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        found: list[UUID] = []
        racer = threading.Thread(
            target=lambda: found.append(ask(second, idempotency_key="order-1"))
        )
        with first.transaction():
            made = ask(first, idempotency_key="order-1")
            racer.start()
            wait_until_blocked(owner, second.info.backend_pid)
            assert found == []
        racer.join()
    assert found == [made]
    assert arrange.statuses(owner) == {"pending": 1}


def test_a_racer_makes_the_message_when_the_first_rolls_back(
    owner: Connection, producer_logins: list[str]
) -> None:
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        found: list[UUID] = []
        racer = threading.Thread(
            target=lambda: found.append(ask(second, idempotency_key="order-1"))
        )
        with first.transaction(force_rollback=True):
            given_up = ask(first, idempotency_key="order-1")
            racer.start()
            wait_until_blocked(owner, second.info.backend_pid)
        racer.join()
    assert found != [given_up]
    assert arrange.row(owner, found[0])["status"] == "pending"


def wait_until_blocked(owner: Connection, pid: int) -> None:
    """Return once pid waits for another session's lock."""
    for _ in range(500):
        row = owner.execute(
            "SELECT cardinality(pg_blocking_pids(%s)) AS n, pg_sleep(0.01)", [pid]
        ).fetchone()
        if row and row["n"]:
            return
    raise AssertionError("nobody waits")


@pytest.mark.parametrize(
    ("to", "cc", "bcc", "accepted"),
    [
        (1, 0, 0, True),
        (49, 0, 0, True),
        (50, 0, 0, True),
        (51, 0, 0, False),
        (1, 48, 0, True),
        (1, 49, 0, True),
        (1, 50, 0, False),
        (1, 0, 49, True),
        (1, 0, 50, False),
        (17, 17, 16, True),
        (17, 17, 17, False),
        (0, 0, 0, False),
        (0, 1, 0, False),
        (0, 0, 1, False),
        (0, 25, 25, False),
    ],
)
def test_a_message_has_one_to_fifty_recipients_and_one_to_at_least(
    producer: Connection, to: int, cc: int, bcc: int, *, accepted: bool
) -> None:
    """SES-04: counted over to, cc and bcc; an address that stands twice is refused by itself."""
    given = {
        "to_addresses": addresses(to, "t"),
        "cc_addresses": addresses(cc, "c"),
        "bcc_addresses": addresses(bcc, "b"),
    }
    if accepted:
        assert ask(producer, **given)
        return
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        ask(producer, **given)
    assert caught.value.diag.constraint_name == "email_messages_recipient_count"


def test_a_fifty_first_recipient_is_refused_by_the_table_itself(owner: Connection) -> None:
    """SES-04, RCP-05: whoever writes the row."""
    arrange.enqueue(owner, to=addresses(49, "t"))
    add = b"UPDATE postlease.email_messages SET bcc_addresses = %s"
    owner.execute(add, [addresses(1, "b")])
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        owner.execute(add, [addresses(2, "b")])
    assert caught.value.diag.constraint_name == "email_messages_recipient_count"


CANARY = "canary@example.net"
TWICE = "email_messages_recipients_distinct"
SHAPE = "email_messages_recipient_shape"
NAMES = "email_messages_names_shape"
TAGS = "email_messages_tags_shape"

ENCODED = "=?utf-8?q?canary=40example.org?=@example.net"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "template of a verification": (
        {"template": "verify_email"},
        "email_messages_token_template",
    ),
    "template of a reset": ({"template": "reset_password"}, "email_messages_token_template"),
    "template with a path": ({"template": "../receipt"}, "email_messages_template_shape"),
    "template without a name": ({"template": ""}, "email_messages_template_shape"),
    "template of 65 characters": ({"template": "a" * 65}, "email_messages_template_shape"),
    "locale with a path": ({"locale": "../en"}, "email_messages_locale_shape"),
    "locale without a name": ({"locale": ""}, "email_messages_locale_shape"),
    "priority of auth mail": ({"priority": 0}, "email_messages_priority"),
    "priority between": ({"priority": 51}, "email_messages_priority"),
    "priority ahead of auth mail": ({"priority": -1}, "email_messages_priority"),
    "priority beyond its type": ({"priority": 2**31 - 1}, "email_messages_priority"),
    "delivery unknown": ({"delivery": "exactly_once"}, "email_messages_delivery"),
    "key empty": ({"idempotency_key": ""}, "email_messages_key_length"),
    "key of 256 characters": ({"idempotency_key": "k" * 256}, "email_messages_key_length"),
    "never": ({"send_at": "infinity"}, "email_messages_times_finite"),
    "since ever": ({"send_at": "-infinity"}, "email_messages_times_finite"),
    "for ever": ({"expires_at": "infinity"}, "email_messages_times_finite"),
    "in the year 10000": ({"send_at": "10000-01-01 00:00Z"}, "email_messages_times_finite"),
    "until the year 10000": ({"expires_at": "10000-01-01 00:00Z"}, "email_messages_times_finite"),
    "until a year before 1": (
        {"expires_at": "0044-03-15 00:00Z BC"},
        "email_messages_times_finite",
    ),
    "since a year before 1": ({"send_at": "0044-03-15 00:00Z BC"}, "email_messages_times_finite"),
    "parameters a list": ({"parameters": Jsonb([])}, "email_messages_parameters_object"),
    "parameters a text": ({"parameters": Jsonb("a")}, "email_messages_parameters_object"),
    "parameters JSON null": ({"parameters": Jsonb(None)}, "email_messages_parameters_object"),
    "to twice": ({"to_addresses": [CANARY, CANARY]}, TWICE),
    "to twice in other case": ({"to_addresses": [CANARY, CANARY.upper()]}, TWICE),
    "to and cc": ({"to_addresses": [CANARY], "cc_addresses": [CANARY.title()]}, TWICE),
    "cc and bcc": ({"cc_addresses": [CANARY], "bcc_addresses": [CANARY]}, TWICE),
    "to NULL element": ({"to_addresses": [CANARY, None]}, SHAPE),
    "cc NULL element": ({"cc_addresses": [None]}, SHAPE),
    "bcc NULL element": ({"bcc_addresses": [None]}, SHAPE),
    "names a list": ({"names": Jsonb([])}, "email_messages_names_object"),
    "name of nobody": (
        {"names": Jsonb({"other@example.com": "Ada"})},
        "email_messages_names_of_recipients",
    ),
    "name by an address in capitals": (
        {"to_addresses": ["Canary@example.net"], "names": Jsonb({"Canary@example.net": "Ada"})},
        "email_messages_names_of_recipients",
    ),
    "name a number": ({"names": Jsonb({CANARY: 1})}, NAMES),
    "name null": ({"names": Jsonb({CANARY: None})}, NAMES),
    "name a list": ({"names": Jsonb({CANARY: ["Ada"]})}, NAMES),
    "name of 101 characters": ({"names": Jsonb({CANARY: "\u00e4" * 101})}, NAMES),
    **{
        f"name {text!r}": ({"names": Jsonb({CANARY: text})}, NAMES)
        for text in (
            "Ada\r\nBcc: b@example.com",
            "Ada\n",
            "A\x0bda",
            "A\x1fda",
            "A\x7fda",
            "A\x85da",
            "A\x9fda",
            "A\u2028da",
            "A\u2029da",
        )
    },
    "tags a list": ({"tags": Jsonb([])}, "email_messages_tags_object"),
    "eleven tags": (
        {"tags": Jsonb({f"tag{place}": "x" for place in range(11)})},
        "email_messages_tags_count",
    ),
    "tag a number": ({"tags": Jsonb({"tag": 1})}, TAGS),
    "tag null": ({"tags": Jsonb({"tag": None})}, TAGS),
    "tag empty": ({"tags": Jsonb({"tag": ""})}, TAGS),
    "tag without a name": ({"tags": Jsonb({"": "x"})}, TAGS),
    "tag with an address": ({"tags": Jsonb({"tag": CANARY})}, TAGS),
    "tag named by an address": ({"tags": Jsonb({CANARY: "x"})}, TAGS),
    "tag with a line": ({"tags": Jsonb({"tag": "x\n"})}, TAGS),
    "tag of 257 characters": ({"tags": Jsonb({"tag": "x" * 257})}, TAGS),
    "tag with a name of 257 characters": ({"tags": Jsonb({"x" * 257: "x"})}, TAGS),
    "tag of ours": ({"tags": Jsonb({"postlease-id": "x"})}, TAGS),
    "tag of ours in capitals": ({"tags": Jsonb({"Postlease-Attempt": "x"})}, TAGS),
    "tag of SES": ({"tags": Jsonb({"ses:configuration-set": "x"})}, TAGS),
    "scope empty": ({"cancel_scope": ""}, "email_messages_scope_length"),
    "scope of 256 characters": ({"cancel_scope": "s" * 256}, "email_messages_scope_length"),
    "over before it leaves": (
        {
            "send_at": datetime(2040, 1, 2, tzinfo=UTC),
            "expires_at": datetime(2040, 1, 1, tzinfo=UTC),
        },
        "email_messages_expires_after_send",
    ),
    "over when it leaves": (
        {
            "send_at": datetime(2040, 1, 1, tzinfo=UTC),
            "expires_at": datetime(2040, 1, 1, tzinfo=UTC),
        },
        "email_messages_expires_after_send",
    ),
    **{
        f"{argument} {text!r}": ({argument: text}, f"email_messages_{word}_shape")
        for argument, word in (("from_address", "from"), ("reply_to", "reply_to"))
        for text in (
            "",
            "Canary",
            "canary@example.net, b@example.com",
            "canary@example.net b@example.com",
            "Canary <canary@example.net>, b@example.com",
            "Canary <canary@example.net> x",
            "Canary <canary>",
            "<>",
            "Canary <canary@ex\u00e4mple.net>",
            "kan\u00e4ry@example.net",
            "Canary\r\nBcc: b@example.com <canary@example.net>",
            "Canary\u2028 <canary@example.net>",
            "Canary\u202e <canary@example.net>",
            "Can\x01ary <canary@example.net>",
            "canary@example.net\n",
            "C" * 129 + " <canary@example.net>",
            "Canary" + " " * 500 + "<canary@example.net>",
            '"' + "C" * 129 + '" <canary@example.net>',
        )
    },
    "two lines of addresses": (
        {"to_addresses": [[CANARY, "b@example.com"], ["c@example.com", "d@example.com"]]},
        "email_messages_recipients_flat",
    ),
    **{
        f"address {text!r}": ({"to_addresses": [text]}, SHAPE)
        for text in (
            "",
            "canary",
            "@example.net",
            "canary@",
            "a@canary@example.net",
            "canary@example.net,b@example.com",
            "canary@example.net;b@example.com",
            "canary@example.net b@example.com",
            " canary@example.net",
            "canary@example.net\n",
            "canary@example.net\r\nBcc: b@example.com",
            "canary@example.net\tx",
            '"canary"@example.net',
            "Canary <canary@example.net>",
            "<canary@example.net>",
            "canary(comment)@example.net",
            "canary@[127.0.0.1]",
            "canary\\@example.net",
            "friends:canary@example.net;",
            "kan\u00e4ry@example.net",
            "canary@ex\u00e4mple.net",
            "canary@example.net\u200b",
            "c" * 65 + "@example.net",
            "canary@" + ("e" * 60 + ".") * 4 + "e.net",
            "canary@localhost",
            "canary@-example.net",
            "canary@example..net",
            "canary@" + "e" * 64 + ".net",
            ENCODED,
        )
    },
}


@pytest.mark.parametrize(("given", "constraint"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_is_named_by_its_constraint_and_not_repeated(
    owner: Connection, producer: Connection, given: dict[str, Any], constraint: str
) -> None:
    """MIM-06, RCP-01, RCP-03: of the recipients, too, whatever the field."""
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        ask(producer, **({"to_addresses": [CANARY]} | given))
    assert caught.value.diag.constraint_name == constraint
    assert caught.value.diag.message_detail is None
    assert "canary" not in f"{caught.value} {caught.value.diag.context}".lower()
    assert arrange.statuses(owner) == {}


def test_lists_in_two_dimensions_are_refused_in_words(producer: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        ask(producer, to_addresses=[["a@example.com", "b@example.com"]])
    assert "recipients are lists of one dimension" in (caught.value.diag.message_primary or "")


def test_the_longest_allowed_address_is_accepted(producer: Connection) -> None:
    assert ask(producer, to_addresses=["c" * 64 + "@" + ("e" * 61 + ".") * 3 + "net"])


@pytest.mark.parametrize(
    "column",
    [
        "template",
        "to_addresses",
        "parameters",
        "cc_addresses",
        "bcc_addresses",
        "locale",
        "names",
        "priority",
        "delivery",
        "tags",
        "attachments",
    ],
)
def test_null_where_a_value_is_needed_is_an_error_that_names_the_column(
    owner: Connection, producer: Connection, column: str
) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation) as caught:
        ask(producer, **({"to_addresses": [CANARY]} | {column: None}))
    assert caught.value.diag.column_name == column
    assert column in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value.diag.message_detail}"
    assert arrange.statuses(owner) == {}


@pytest.mark.parametrize("key", ["k", "k" * 255])
def test_a_key_has_one_to_255_characters(producer: Connection, key: str) -> None:
    assert ask(producer, idempotency_key=key)


def test_parameters_up_to_64_kilobytes_are_accepted_and_one_byte_more_refused(
    producer: Connection,
) -> None:
    room = 65_536 - len('{"text": ""}')
    assert ask(producer, parameters=Jsonb({"text": "x" * room}))
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        ask(producer, parameters=Jsonb({"text": "x" * (room + 1)}))
    assert caught.value.diag.constraint_name == "email_messages_parameters_size"
    assert caught.value.diag.message_detail is None


def test_a_message_leaves_no_earlier_than_asked(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    message_id = ask(producer, send_at=moment)
    assert arrange.row(owner, message_id)["available_at"] == moment
    assert arrange.claim(application) == []
    arrange.age(owner, message_id, timedelta(hours=1, seconds=1), "available_at")
    assert [m.claim.message_id for m in arrange.claim(application)] == [message_id]


def test_a_time_in_the_past_means_now_and_overtakes_nobody(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    first = ask(producer)
    second = ask(producer, send_at=datetime(1970, 1, 1, tzinfo=UTC))
    found = [m.claim.message_id for m in arrange.claim(application, 2)]
    assert found == [first, second]


def test_a_message_that_is_over_when_it_is_asked_for_ends_expired_and_unsent(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    message_id = ask(producer, expires_at=datetime(1970, 1, 1, tzinfo=UTC))
    assert arrange.reap(application)["late"].failed == 1
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "expired")
    assert stored["dispatched_at"] is None


def test_a_producer_cannot_take_another_name(
    owner: Connection, producer_connections: list[Connection]
) -> None:
    shop, club = producer_connections
    for statement in (
        f"SET ROLE {club.info.user}",
        f"SET SESSION AUTHORIZATION {club.info.user}",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.execute(cast("LiteralString", statement))
    shop.execute("SET ROLE postlease_producer")
    assert arrange.row(owner, ask(shop))["producer"] == shop.info.user


def test_names_of_the_producers_own_change_nothing_inside_the_call(
    owner: Connection, producer: Connection
) -> None:
    """SECURITY DEFINER: objects of the caller must not be found before ours."""
    producer.execute("CREATE TEMPORARY TABLE email_messages (id uuid)")
    producer.execute("CREATE TEMPORARY TABLE pg_proc (id uuid)")
    producer.execute("SET search_path = pg_temp, pg_catalog")
    assert arrange.row(owner, ask(producer))["status"] == "pending"


def test_what_is_always_decided_here_cannot_be_passed(producer: Connection) -> None:
    row = producer.execute(
        "SELECT proargnames AS names FROM pg_proc WHERE proname = 'enqueue_email'"
    ).fetchone()
    assert row
    assert row["names"] == list(TYPES)


# Auth mail: for the application alone.


def test_auth_mail_goes_to_the_users_own_address_ahead_of_all_other_mail(
    owner: Connection, application: Connection
) -> None:
    user_id = arrange.user(owner, "Ada@example.com")
    token_id = arrange.token(owner, user_id, life=timedelta(hours=3))
    message_id = outbox.enqueue_auth(
        application, template="verify_email", user_id=user_id, token_id=token_id
    )
    stored = arrange.row(owner, message_id)
    expiry = owner.execute(
        "SELECT expires_at FROM postlease.verification_tokens WHERE id = %s", [token_id]
    ).fetchone()
    assert expiry
    assert stored["to_addresses"] == ["Ada@example.com"]
    assert (stored["cc_addresses"], stored["bcc_addresses"]) == ([], [])
    assert (stored["priority"], stored["token_id"]) == (0, token_id)
    assert stored["expires_at"] == expiry["expires_at"]
    assert (stored["locale"], stored["producer"]) == ("en", "postlease_application")


def test_auth_mail_takes_the_language_of_the_request_before_the_users(
    owner: Connection, application: Connection
) -> None:
    message_id = outbox.enqueue_auth(
        application, template="account_exists", user_id=arrange.user(owner), locale="de"
    )
    assert arrange.row(owner, message_id)["locale"] == "de"


def test_auth_mail_carries_no_token_of_another_user(
    owner: Connection, application: Connection
) -> None:
    token_id = arrange.token(owner, arrange.user(owner, "ada@example.com"))
    other = arrange.user(owner, "bob@example.com")
    with pytest.raises(DatabaseError) as caught:
        outbox.enqueue_auth(application, template="verify_email", user_id=other, token_id=token_id)
    assert caught.value.constraint == "email_messages_token_fkey"
    assert arrange.statuses(owner) == {}


@pytest.mark.parametrize("template", ["reset_password", "account_exists", "receipt"])
def test_auth_mail_carries_no_token_of_another_purpose(
    owner: Connection, application: Connection, template: str
) -> None:
    user_id = arrange.user(owner)
    token_id = arrange.token(owner, user_id)
    with pytest.raises(DatabaseError) as caught:
        outbox.enqueue_auth(application, template=template, user_id=user_id, token_id=token_id)
    assert caught.value.constraint == "email_messages_token_fkey"


@pytest.mark.parametrize("template", ["verify_email", "reset_password"])
def test_a_template_with_a_link_is_refused_without_its_token(
    owner: Connection, application: Connection, template: str
) -> None:
    with pytest.raises(DatabaseError) as caught:
        outbox.enqueue_auth(application, template=template, user_id=arrange.user(owner))
    assert caught.value.constraint == "email_messages_token_template"


def test_auth_mail_to_nobody_is_refused(owner: Connection, application: Connection) -> None:
    with pytest.raises(DatabaseError) as caught:
        outbox.enqueue_auth(application, template="account_exists", user_id=UUID(int=1))
    assert caught.value.sqlstate == "23503"


def test_a_token_mail_with_a_second_reader_is_refused_by_the_table_itself(
    owner: Connection,
) -> None:
    message_id, _ = arrange.auth_message(owner)
    for column in ("to_addresses", "cc_addresses", "bcc_addresses"):
        with pytest.raises(psycopg.errors.CheckViolation) as caught:
            owner.execute(
                sql.SQL(
                    "UPDATE postlease.email_messages"
                    " SET {0} = {0} || '{{second@example.com}}'::text[] WHERE id = %s"
                ).format(sql.Identifier(column)),
                [message_id],
            )
        assert caught.value.diag.constraint_name == "email_messages_token_alone"


def test_a_superseded_tokens_pending_message_ends_unsent(
    owner: Connection, application: Connection
) -> None:
    message_id, token_id = arrange.auth_message(owner)
    kept, _ = arrange.auth_message(owner, email="other@example.com")
    assert outbox.supersede(application, [token_id]) == 1
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "superseded")
    assert stored["finished_at"] is not None
    assert [m.claim.message_id for m in arrange.claim(application, 5)] == [kept]


def test_superseding_leaves_what_is_being_sent_or_finished_alone(
    owner: Connection, application: Connection
) -> None:
    message_id, token_id = arrange.auth_message(owner)
    [message] = arrange.dispatch(application)
    assert outbox.supersede(application, [token_id]) == 0
    outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert outbox.supersede(application, [token_id]) == 0
    assert arrange.row(owner, message_id) == before


def test_superseding_is_undone_with_its_transaction(
    owner: Connection, application: Connection
) -> None:
    message_id, token_id = arrange.auth_message(owner)
    with application.transaction(force_rollback=True):
        assert outbox.supersede(application, [token_id]) == 1
    assert arrange.row(owner, message_id)["status"] == "pending"


def test_superseding_nothing_is_no_error(owner: Connection, application: Connection) -> None:
    assert outbox.supersede(application, []) == 0


# Attachments are references, never content.


def attach(owner: Connection, message_id: UUID, **columns: Any) -> None:
    """One row of email_attachments: a usual one but for columns."""
    given: dict[str, Any] = {
        "message_id": message_id,
        "position": 1,
        "filename": "a.pdf",
        "content_type": "application/pdf",
        "storage_ref": "attachments/uploads/a",
        "version_id": "v1",
        "size": 3,
        "sha256": bytes(32),
    } | columns
    names = ", ".join(given)
    values = ", ".join(f"%({name})s" for name in given)
    statement = f"INSERT INTO postlease.email_attachments ({names}) VALUES ({values})"  # noqa: S608
    owner.execute(cast("LiteralString", statement), given)


def test_an_attachment_is_a_reference_and_holds_no_content(owner: Connection) -> None:
    columns = owner.execute(
        "SELECT column_name AS name FROM information_schema.columns"
        " WHERE table_schema = 'postlease' AND table_name = 'email_attachments'"
    )
    assert {row["name"] for row in columns} == {
        "message_id",
        "position",
        "filename",
        "content_type",
        "storage_ref",
        "version_id",
        "size",
        "sha256",
        "owned",
        "content_id",
    }


@pytest.mark.parametrize(
    ("column", "value", "constraint"),
    [
        ("storage_ref", "elsewhere/a", "email_attachments_under_prefix"),
        ("storage_ref", "/attachments/a", "email_attachments_under_prefix"),
        ("storage_ref", "attachments/", "email_attachments_under_prefix"),
        ("storage_ref", "attachments/a\nb", "email_attachments_key_shape"),
        ("storage_ref", "attachments/a\x1fb", "email_attachments_key_shape"),
        ("storage_ref", "attachments/" + "\u00e4" * 507, "email_attachments_key_shape"),
        ("version_id", None, "email_attachments_owned_is_pinned"),
        ("sha256", bytes(31), "email_attachments_sha256_length"),
        ("sha256", bytes(33), "email_attachments_sha256_length"),
        ("size", -1, "email_attachments_size"),
        ("filename", "", "email_attachments_filename"),
        ("filename", "a" * 256, "email_attachments_filename"),
    ],
)
def test_a_reference_that_cannot_be_honoured_is_refused(
    owner: Connection, column: str, value: object, constraint: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        attach(owner, message_id, **{column: value})
    assert caught.value.diag.constraint_name == constraint


def test_an_uploaded_object_has_one_owner(owner: Connection) -> None:
    one, other = arrange.enqueue(owner, 2)
    attach(owner, one)
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        attach(owner, other)
    assert caught.value.diag.constraint_name == "email_attachments_one_owner"


def test_an_object_outside_the_uploads_is_shared_and_owned_by_nobody(owner: Connection) -> None:
    one, other = arrange.enqueue(owner, 2)
    attach(owner, one, storage_ref="attachments/terms.pdf", version_id=None)
    attach(owner, other, storage_ref="attachments/terms.pdf")
    rows = owner.execute("SELECT owned FROM postlease.email_attachments").fetchall()
    assert [row["owned"] for row in rows] == [False, False]


def test_who_owns_an_object_is_computed_and_never_accepted(owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    with pytest.raises(psycopg.errors.GeneratedAlways):
        attach(owner, message_id, owned=False)


def test_an_attachment_belongs_to_a_message(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation) as caught:
        attach(owner, UUID(int=1))
    assert caught.value.diag.constraint_name == "email_attachments_message_fkey"


def test_threads_racing_on_one_key_get_one_id(
    owner: Connection, producer_logins: list[str]
) -> None:
    start = threading.Barrier(6)
    found: list[UUID] = []

    def race() -> None:
        with connect(producer_logins[0]) as connection:
            start.wait()
            found.append(ask(connection, idempotency_key="order-1"))

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert arrange.statuses(owner) == {"pending": 1}
