"""A retry and a newer message of its scope: whichever comes first, one of the two stays pending."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from postlease import outbox
from tests import arrange
from tests.integration.messages.test_cancelling import fail, refuse
from tests.integration.messages.test_operating import wait_for_lock_wait
from tests.integration.test_enqueue_scopes import HELD

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection

WANTED = outbox.Wanted(reason="rejected")


def ask_again(connection: Connection, older: UUID, *, many: bool) -> bool:
    """Whether a retry, of the one message or of all, has it sent again."""
    if many:
        return outbox.retry_many(connection, WANTED, limit=10) == 1
    return outbox.retry(connection, older) == "retried"


def locks(owner: Connection, connection: Connection) -> list[int]:
    """The scopes that a connection holds, as halves of their keys."""
    return [row["objid"] for row in owner.execute(HELD, [connection.info.backend_pid])]


def test_a_retry_that_waited_for_a_newer_one_is_replaced_by_it(
    owner: Connection, application: Connection, open_application: Callable[[], Connection]
) -> None:
    older = fail(owner, application, cancel_scope="cart-1")
    with ThreadPoolExecutor(1) as threads:
        with owner.transaction():
            [newer] = arrange.enqueue(owner, cancel_scope="cart-1")
            asked = threads.submit(outbox.retry, application, older)
            wait_for_lock_wait(open_application())
        assert asked.result(10) == "superseded"
    assert [m.claim.message_id for m in arrange.claim(application, 10)] == [newer]


@pytest.mark.parametrize("became", ["pending", "cancelled"])
def test_many_that_waited_for_a_newer_one_are_replaced_by_it(
    owner: Connection,
    application: Connection,
    open_application: Callable[[], Connection],
    became: str,
) -> None:
    fail(owner, application, cancel_scope="cart-1")
    other = fail(owner, application, cancel_scope="cart-2")
    with ThreadPoolExecutor(1) as threads:
        with owner.transaction():
            [newer] = arrange.enqueue(owner, cancel_scope="cart-1")
            if became == "cancelled":
                outbox.cancel(owner, newer)
            asked = threads.submit(outbox.retry_many, application, WANTED, limit=10)
            wait_for_lock_wait(open_application())
        assert asked.result(10) == 1
    assert {m.claim.message_id for m in arrange.claim(application, 10)} == {
        other,
        *([newer] if became == "pending" else []),
    }


def test_many_that_wait_for_a_scope_are_changed_by_nobody_else(
    owner: Connection, application: Connection, open_application: Callable[[], Connection]
) -> None:
    """Retention, for one, must not take the content of what is about to be sent."""
    fail(owner, application, cancel_scope="cart-1")
    other = open_application()
    with ThreadPoolExecutor(1) as threads:
        with owner.transaction():
            arrange.enqueue(owner, cancel_scope="cart-1")
            asked = threads.submit(outbox.retry_many, application, WANTED, limit=10)
            wait_for_lock_wait(other)
            free = "SELECT FROM postlease.email_messages FOR NO KEY UPDATE SKIP LOCKED"
            assert other.execute(free).fetchall() == []
        assert asked.result(10) == 0


@pytest.mark.parametrize("many", [False, True])
def test_a_newer_one_that_waited_for_a_retry_takes_its_place(
    owner: Connection,
    application: Connection,
    open_application: Callable[[], Connection],
    many: bool,
) -> None:
    producer = open_application()
    [older] = arrange.enqueue(producer, cancel_scope="cart-1")
    refuse(application)
    with ThreadPoolExecutor(1) as threads:
        with application.transaction():
            assert ask_again(application, older, many=many)
            asked = threads.submit(arrange.enqueue, producer, cancel_scope="cart-1")
            wait_for_lock_wait(owner)
        newer = asked.result(10)
    assert arrange.row(owner, older)["failure_reason"] == "superseded"
    assert [m.claim.message_id for m in arrange.claim(application, 10)] == newer


@pytest.mark.parametrize("became", ["pending", "cancelled"])
def test_what_was_replaced_takes_no_place_among_the_many(
    owner: Connection, application: Connection, became: str
) -> None:
    older = fail(owner, application, cancel_scope="cart-1")
    retriable = fail(owner, application)
    [newer] = arrange.enqueue(owner, cancel_scope="cart-1")
    if became == "cancelled":
        outbox.cancel(owner, newer)
    owner.execute(
        "UPDATE postlease.email_messages SET id = '00000000-0000-7000-8000-000000000000'"
        " WHERE id = %s",
        [older],
    )
    assert outbox.retry_many(application, WANTED, limit=1) == 1
    assert arrange.row(owner, retriable)["status"] == "pending"


@pytest.mark.parametrize("many", [False, True])
def test_a_retry_holds_the_lock_of_its_own_scope_alone(
    owner: Connection,
    application: Connection,
    many: bool,
) -> None:
    older = fail(owner, application, cancel_scope="cart-1")
    arrange.enqueue(owner, cancel_scope="cart-2")
    with application.transaction():
        assert ask_again(application, older, many=many)
        assert len(locks(owner, application)) == 1


@pytest.mark.parametrize("many", [False, True])
def test_a_retry_without_a_scope_holds_no_lock(
    owner: Connection,
    application: Connection,
    many: bool,
) -> None:
    older = fail(owner, application)
    with application.transaction():
        assert ask_again(application, older, many=many)
        assert locks(owner, application) == []


def test_a_retry_of_many_takes_the_locks_in_the_order_of_a_batch(
    owner: Connection, application: Connection, open_application: Callable[[], Connection]
) -> None:
    """Else the two could each hold what the other waits for."""
    for scope in ("cart-1", "cart-2"):
        fail(owner, application, cancel_scope=scope)
    keys = sorted(
        row["key"]
        for row in owner.execute(
            "SELECT hashtextextended(jsonb_build_array(producer, cancel_scope)::text, 0) AS key"
            " FROM postlease.email_messages"
        )
    )
    with ThreadPoolExecutor(1) as threads:
        with owner.transaction():
            owner.execute("SELECT pg_advisory_xact_lock(%s)", [keys[-1]])
            asked = threads.submit(outbox.retry_many, application, WANTED, limit=10)
            looking = open_application()
            wait_for_lock_wait(looking)
            assert locks(owner, application) == [keys[0] % 2**32]
        assert asked.result(10) == 2
