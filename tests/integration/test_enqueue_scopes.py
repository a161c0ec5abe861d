"""Cancel scopes: of a producer's messages in one scope the newest alone stays pending."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from postlease import outbox
from postlease.database import connect
from tests import arrange
from tests.integration.test_enqueue import (
    ask,
    producer,
    producer_connections,
    producer_logins,
    wait_until_blocked,
)
from tests.integration.test_enqueue_batches import ask_many, message

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures


def state(owner: Connection, message_id: UUID) -> tuple[str, str | None]:
    """Status and reason."""
    stored = arrange.row(owner, message_id)
    return stored["status"], stored["failure_reason"]


PENDING = ("pending", None)
SUPERSEDED = ("failed", "superseded")


def test_a_newer_message_takes_the_place_of_those_that_are_pending(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    older = [ask(producer, cancel_scope="cart-1"), ask(producer, cancel_scope="cart-1")]
    newest = ask(producer, cancel_scope="cart-1")
    assert [state(owner, one) for one in older] == [SUPERSEDED] * 2
    assert arrange.row(owner, older[0])["finished_at"] is not None
    assert [m.claim.message_id for m in arrange.claim(application, 5)] == [newest]


def test_other_scopes_and_messages_without_one_stay(
    owner: Connection, producer: Connection
) -> None:
    others = [ask(producer), ask(producer, cancel_scope="cart-2"), ask(producer)]
    ask(producer, cancel_scope="cart-1")
    assert [state(owner, one) for one in others] == [PENDING] * 3


def test_a_scope_belongs_to_its_producer(
    owner: Connection, producer_connections: list[Connection]
) -> None:
    shop, club = producer_connections
    theirs = ask(club, cancel_scope="cart-1")
    ask(shop, cancel_scope="cart-1")
    assert state(owner, theirs) == PENDING


def test_a_message_that_is_being_sent_or_is_finished_stays_as_it_is(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    done, leaving = ask(producer, cancel_scope="cart-1"), None
    [claimed] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(claimed.claim)])
    leaving = ask(producer, cancel_scope="cart-1")
    arrange.claim(application)
    before = [arrange.row(owner, one) for one in (done, leaving)]
    ask(producer, cancel_scope="cart-1")
    assert [arrange.row(owner, one) for one in (done, leaving)] == before


def test_a_repeated_key_supersedes_nothing(owner: Connection, producer: Connection) -> None:
    """Its message is older than what came in between, and is not asked for anew."""
    first = ask(producer, cancel_scope="cart-1", idempotency_key="1")
    second = ask(producer, cancel_scope="cart-1", idempotency_key="2")
    assert ask(producer, cancel_scope="cart-1", idempotency_key="1") == first
    assert ask_many(producer, message(cancel_scope="cart-1", idempotency_key="1")) == [first]
    assert (state(owner, first), state(owner, second)) == (SUPERSEDED, PENDING)


def test_superseding_is_undone_with_the_producer_s_transaction(
    owner: Connection, producer: Connection
) -> None:
    kept = ask(producer, cancel_scope="cart-1")
    with producer.transaction(force_rollback=True):
        ask(producer, cancel_scope="cart-1")
    assert state(owner, kept) == PENDING


def test_of_a_batch_the_last_of_each_scope_stays(owner: Connection, producer: Connection) -> None:
    older = ask(producer, cancel_scope="cart-2")
    ids = ask_many(
        producer,
        message(cancel_scope="cart-1"),
        message(cancel_scope="cart-2"),
        message(),
        message(cancel_scope="cart-1"),
    )
    assert [state(owner, one) for one in (older, *ids)] == [
        SUPERSEDED,
        SUPERSEDED,
        PENDING,
        PENDING,
        PENDING,
    ]


def test_of_a_batch_a_repeated_key_is_not_the_last_of_its_scope(
    owner: Connection, producer: Connection
) -> None:
    old = message(cancel_scope="cart-1", idempotency_key="old")
    [first] = ask_many(producer, old)
    new, again = ask_many(producer, message(cancel_scope="cart-1"), old)
    assert again == first
    assert (state(owner, first), state(owner, new)) == (SUPERSEDED, PENDING)


def test_two_sessions_with_one_scope_leave_one_message_pending(
    owner: Connection, producer_logins: list[str]
) -> None:
    """The second waits for the first's commit; without that, neither would see the other's."""
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        found: list[UUID] = []
        racer = threading.Thread(target=lambda: found.append(ask(second, cancel_scope="cart-1")))
        with first.transaction():
            older = ask(first, cancel_scope="cart-1")
            racer.start()
            wait_until_blocked(owner, second.info.backend_pid)
        racer.join()
    assert (state(owner, older), state(owner, found[0])) == (SUPERSEDED, PENDING)


def test_a_message_that_is_claimed_meanwhile_stays_its_claimant_s(
    owner: Connection, producer_logins: list[str], application: Connection
) -> None:
    """Whoever looked before the claim's commit looks again after it."""
    with connect(producer_logins[0]) as connection:
        older = ask(connection, cancel_scope="cart-1")

        def race() -> None:
            with contextlib.suppress(psycopg.Error):  # then the message is not there
                ask(connection, cancel_scope="cart-1")

        racer = threading.Thread(target=race)
        with application.transaction():
            assert [m.claim.message_id for m in arrange.claim(application)] == [older]
            racer.start()
            wait_until_blocked(owner, connection.info.backend_pid)
        racer.join()
    assert state(owner, older) == ("sending", None)
    assert arrange.statuses(owner) == {"sending": 1, "pending": 1}


HELD: LiteralString = (
    "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s"
)


def test_the_scopes_of_a_batch_are_locked_in_one_order_whatever_the_batch_s(
    owner: Connection, producer_logins: list[str]
) -> None:
    """Else two batches could each hold what the other waits for."""
    [low, high] = owner.execute(
        "SELECT hashtextextended(jsonb_build_array(%s::text, s)::text, 0) AS key, s AS scope"
        " FROM unnest(ARRAY['cart-1', 'cart-2']) AS s ORDER BY key",
        [conninfo_to_dict(producer_logins[0])["user"]],
    ).fetchall()
    for scopes in ([low["scope"], high["scope"]], [high["scope"], low["scope"]]):
        batch = [message(cancel_scope=scope) for scope in scopes]
        with connect(producer_logins[0]) as waiting:
            racer = threading.Thread(target=ask_many, args=(waiting, *batch))
            with owner.transaction():
                owner.execute("SELECT pg_advisory_xact_lock(%s)", [high["key"]])
                racer.start()
                wait_until_blocked(owner, waiting.info.backend_pid)
                [held] = owner.execute(HELD, [waiting.info.backend_pid]).fetchall()
                assert held["objid"] == low["key"] % 2**32
            racer.join()
    assert arrange.statuses(owner) == {"failed": 2, "pending": 2}


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_key_that_another_session_took_meanwhile_fails_a_fixed_snapshot(
    producer_logins: list[str], owner: Connection, isolation: str
) -> None:
    """Its row cannot be seen, and another must not be made: the transaction is to be repeated."""
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        second.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
        second.execute("SELECT 1")
        ask(first, idempotency_key="1")
        with pytest.raises(psycopg.errors.SerializationFailure):
            ask(second, idempotency_key="1")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_what_the_page_says_of_scopes_and_isolation_is_so(
    owner: Connection, producer_logins: list[str], isolation: str
) -> None:
    """A snapshot that is fixed before the other one's commit does not show its message."""
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        for connection in (first, second):
            connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
            connection.execute("SELECT 1")
        failed = False
        ask(first, cancel_scope="cart-1")
        first.execute("COMMIT")
        try:
            ask(second, cancel_scope="cart-1")
            second.execute("COMMIT")
        except psycopg.errors.SerializationFailure:
            failed = True
    assert (
        arrange.statuses(owner)
        == {
            "READ COMMITTED": {"failed": 1, "pending": 1},
            "REPEATABLE READ": {"pending": 2},
            "SERIALIZABLE": {"pending": 1},
        }[isolation]
    )
    assert failed == (isolation == "SERIALIZABLE")


def test_without_a_scope_nothing_is_locked(owner: Connection, producer: Connection) -> None:
    with producer.transaction():
        ask(producer)
        ask_many(producer, message())
        assert owner.execute(HELD, [producer.info.backend_pid]).fetchall() == []
