"""The cooldown: one row a mailbox, one winner a window, in the database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from psycopg import Rollback

from postlease import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

PEPPER = b"p" * 43
DIGEST = b"d" * 32
MINUTE = timedelta(minutes=1)


def take(database: Database, digest: bytes = DIGEST, window: timedelta = MINUTE) -> UUID | None:
    """One request of its own transaction."""
    with database.transaction() as connection:
        return limits.take(connection, digest, window=window)


def note(database: Database, message_id: UUID | None, digest: bytes = DIGEST) -> None:
    """Notes an event in a transaction of its own."""
    with database.transaction() as connection:
        limits.note(connection, digest, message_id)


def test_variants_of_a_sub_address_share_one_mailbox() -> None:
    plain = limits.mailbox_digest(PEPPER, "flow", "ada@example.com")
    assert limits.mailbox_digest(PEPPER, "flow", "ada+x@example.com") == plain
    assert limits.mailbox_digest(PEPPER, "flow", "ada+x+y@example.com") == plain
    assert limits.mailbox_digest(PEPPER, "flow", "adax@example.com") != plain
    assert limits.mailbox_digest(PEPPER, "flow", "ada@example.org") != plain


def test_an_address_that_is_all_sub_address_keeps_a_limit_of_its_own() -> None:
    first = limits.mailbox_digest(PEPPER, "flow", "+a@example.com")
    assert first != limits.mailbox_digest(PEPPER, "flow", "+b@example.com")


def test_flows_do_not_share_a_cooldown() -> None:
    assert limits.mailbox_digest(PEPPER, "one", "a@example.com") != (
        limits.mailbox_digest(PEPPER, "two", "a@example.com")
    )


def test_the_digest_needs_the_pepper() -> None:
    assert limits.mailbox_digest(b"q" * 43, "flow", "a@example.com") != (
        limits.mailbox_digest(PEPPER, "flow", "a@example.com")
    )


def test_a_running_window_answers_the_event_noted_in_it(world: World, database: Database) -> None:
    event = uuid4()
    assert take(database) is None
    note(database, event)
    assert take(database) == event
    assert take(database) == event
    [row] = world.rows("SELECT used FROM postlease.rate_limits")
    assert row["used"] == 3


def test_a_window_lasts_from_its_first_request_and_is_not_extended(
    world: World, database: Database
) -> None:
    take(database)
    before = world.rows("SELECT window_started_at, window_ends_at FROM postlease.rate_limits")
    take(database, window=timedelta(hours=1))
    after = world.rows("SELECT window_started_at, window_ends_at FROM postlease.rate_limits")
    assert before == after
    assert before[0]["window_ends_at"] - before[0]["window_started_at"] == MINUTE


def test_an_ended_window_is_taken_over_and_forgets_its_event(
    world: World, database: Database
) -> None:
    take(database)
    note(database, uuid4())
    world.end_cooldowns()
    assert take(database) is None
    assert take(database) is None
    [row] = world.rows(
        "SELECT used, message_id, window_ends_at > now() AS running FROM postlease.rate_limits"
    )
    assert row == {"used": 2, "message_id": None, "running": True}


@pytest.mark.parametrize(
    ("ends", "is_running"),
    [("now() + interval '1 second'", True), ("now() - interval '1 second'", False)],
)
def test_the_window_ends_at_its_end(
    world: World, database: Database, ends: str, is_running: bool
) -> None:
    event = uuid4()
    take(database)
    note(database, event)
    world.rows(
        f"UPDATE postlease.rate_limits SET window_started_at = now() - interval '1 hour',"  # noqa: S608  both texts are ours
        f" window_ends_at = {ends} RETURNING 1"
    )
    assert take(database) == (event if is_running else None)


def test_a_window_of_no_length_is_over_at_once(world: World, database: Database) -> None:
    take(database, window=timedelta(0))
    note(database, uuid4())
    assert take(database, window=timedelta(0)) is None


def test_mailboxes_do_not_share_a_cooldown(world: World, database: Database) -> None:
    other, events = b"o" * 32, [uuid4(), uuid4()]
    for digest, event in zip((DIGEST, other), events, strict=True):
        assert take(database, digest) is None
        note(database, event, digest)
    assert [take(database, digest) for digest in (DIGEST, other)] == events
    with database.transaction() as connection:
        limits.clear(connection, DIGEST)
    assert take(database) is None
    assert take(database, other) == events[1]


def test_a_second_request_waits_and_sees_the_events_of_the_first(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()
    event = uuid4()
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            with first.transaction() as connection:
                assert limits.take(connection, DIGEST, window=MINUTE) is None
                waiting = pool.submit(take, second)
                world.wait_until_blocked()
                limits.note(connection, DIGEST, event)
            assert waiting.result(timeout=10) == event
        world.end_cooldowns()  # the second round takes an ended window over


def test_a_request_that_rolled_back_leaves_no_window(world: World, database: Database) -> None:
    with database.transaction() as connection:
        limits.take(connection, DIGEST, window=MINUTE)
        raise Rollback
    assert world.count("rate_limits") == 0
