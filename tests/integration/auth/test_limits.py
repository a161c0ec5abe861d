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


def note(
    database: Database,
    message_id: UUID | None,
    digest: bytes = DIGEST,
    window: timedelta = MINUTE,
) -> None:
    """Notes an event in a transaction of its own."""
    with database.transaction() as connection:
        limits.note(connection, digest, message_id, window=window)


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


def test_a_window_lasts_from_its_message(world: World, database: Database) -> None:
    """Whoever asks for what does not come of it shortens nobody's cooldown."""
    take(database)
    world.owner.execute(
        "UPDATE postlease.rate_limits SET window_started_at = now() - interval '59 seconds',"
        " window_ends_at = now() + interval '1 second'"
    )
    note(database, uuid4())
    [row] = world.rows(
        "SELECT window_ends_at - window_started_at AS length,"
        " window_ends_at > now() + interval '50 seconds' AS is_new FROM postlease.rate_limits"
    )
    assert row == {"length": MINUTE, "is_new": True}


def test_noting_no_message_changes_nothing(world: World, database: Database) -> None:
    take(database)
    note(database, uuid4())
    world.owner.execute(
        "UPDATE postlease.rate_limits SET window_started_at = now() - interval '59 seconds',"
        " window_ends_at = now() + interval '1 second'"
    )
    before = world.rows("SELECT * FROM postlease.rate_limits")
    note(database, None)
    assert world.rows("SELECT * FROM postlease.rate_limits") == before


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
    note(database, uuid4(), window=timedelta(0))
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
                limits.note(connection, DIGEST, event, window=MINUTE)
            assert waiting.result(timeout=10) == event
        world.end_cooldowns()  # the second round takes an ended window over


def test_a_cooldown_that_begins_at_this_moment_is_ended_too(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()

    def end() -> None:
        with second.transaction() as connection:
            limits.clear(connection, DIGEST)

    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            limits.take(connection, DIGEST, window=MINUTE)
            ending = pool.submit(end)
            world.wait_until_blocked()
        ending.result(timeout=10)
    assert world.count("rate_limits") == 0


def test_a_request_that_rolled_back_leaves_no_window(world: World, database: Database) -> None:
    with database.transaction() as connection:
        limits.take(connection, DIGEST, window=MINUTE)
        raise Rollback
    assert world.count("rate_limits") == 0


# Counted windows: how often something may happen.

HOUR = limits.Window(b"h" * 32, timedelta(hours=1), 2)
DAY = limits.Window(b"y" * 32, timedelta(days=1), 3)


def count(database: Database, *windows: limits.Window, message_id: UUID | None = None) -> int:
    """One count in a transaction of its own."""
    with database.transaction() as connection:
        return limits.count(connection, windows, message_id=message_id)


def spent(database: Database, *windows: limits.Window) -> UUID | None:
    """The message that a window which is used up answers."""
    with database.transaction() as connection:
        return limits.spent(connection, windows)


def test_a_used_up_window_holds_until_its_end(world: World, database: Database) -> None:
    event = uuid4()
    for used in range(2):
        assert spent(database, HOUR) is None, used
        assert count(database, HOUR, message_id=event) == 0
    assert spent(database, HOUR) == event
    world.end_cooldowns()
    assert spent(database, HOUR) is None
    count(database, HOUR, message_id=event)
    assert spent(database, HOUR) is None


def test_a_used_up_window_answers_its_last_message(world: World, database: Database) -> None:
    first, last = uuid4(), uuid4()
    count(database, HOUR, message_id=first)
    count(database, HOUR, message_id=last)
    assert spent(database, HOUR) == last


def test_a_window_without_a_message_holds_nobody(world: World, database: Database) -> None:
    for _ in range(3):
        count(database, HOUR)
    assert spent(database, HOUR, DAY) is None
    event = uuid4()
    for _ in range(3):
        count(database, DAY, message_id=event)
    assert spent(database, HOUR, DAY) == event


def test_what_counts_for_nothing_neither_holds_nor_begins_a_window(
    world: World, database: Database
) -> None:
    def nothing() -> None:
        with database.transaction() as connection:
            assert limits.count(connection, [HOUR], times=0) == 0

    for _ in range(3):
        nothing()
    world.owner.execute(
        "UPDATE postlease.rate_limits SET window_started_at = now() - interval '59 minutes',"
        " window_ends_at = now() + interval '1 minute'"
    )
    first, last = uuid4(), uuid4()
    count(database, HOUR, message_id=first)
    [row] = world.rows(
        "SELECT used, window_ends_at - window_started_at AS length,"
        " window_ends_at > now() + interval '59 minutes' AS is_new FROM postlease.rate_limits"
    )
    assert row == {"used": 1, "length": HOUR.length, "is_new": True}
    count(database, HOUR, message_id=last)
    nothing()
    assert spent(database, HOUR) == last
    assert world.rows("SELECT used FROM postlease.rate_limits") == [{"used": 2}]


def test_any_of_the_windows_holds(world: World, database: Database) -> None:
    event = uuid4()
    for _ in range(3):
        count(database, HOUR, DAY, message_id=event)
        world.rows(
            "UPDATE postlease.rate_limits SET window_started_at = now() - interval '2 hours',"
            " window_ends_at = now() WHERE limit_digest = %s RETURNING 1",
            HOUR.digest,
        )
    assert spent(database, HOUR) is None
    assert spent(database, HOUR, DAY) == event


def test_counted_windows_are_apart(world: World, database: Database) -> None:
    for _ in range(2):
        count(database, HOUR, message_id=uuid4())
    other = limits.Window(DAY.digest, DAY.length, HOUR.most)
    assert spent(database, other) is None
    assert count(database, other) == 0


def test_an_overrun_window_says_when_it_ends(world: World, database: Database) -> None:
    for _ in range(2):
        assert count(database, HOUR, DAY) == 0
    assert 3590 < count(database, HOUR, DAY) <= 3600
    assert 86_390 < count(database, HOUR, DAY) <= 86_400, "the longest wait counts"


def test_a_counted_window_is_not_extended(world: World, database: Database) -> None:
    count(database, HOUR)
    lasts = "SELECT window_started_at, window_ends_at FROM postlease.rate_limits"
    before = world.rows(lasts)
    count(database, HOUR)
    assert world.rows(lasts) == before
    assert before[0]["window_ends_at"] - before[0]["window_started_at"] == timedelta(hours=1)


def test_parallel_counts_are_all_counted(
    world: World, open_database: Callable[[], Database]
) -> None:
    processes = [open_database() for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        waits = list(pool.map(lambda process: count(process, DAY, HOUR), processes))
    assert sum(wait == 0 for wait in waits) == 2
    assert {row["used"] for row in world.rows("SELECT used FROM postlease.rate_limits")} == {10}


def test_no_windows_are_no_limit(world: World, database: Database) -> None:
    assert count(database) == 0
    assert spent(database) is None
    assert world.count("rate_limits") == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("2001:DB8:1:2::1", "2001:db8:1:2:0:0:0:1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
        ("unknown", "192.0.2.1", False),
    ],
)
def test_a_client_is_its_address_or_its_network_of_ipv6(
    one: str, other: str, *, is_same: bool
) -> None:
    digests = [limits.client_digest(PEPPER, client, use="minute") for client in (one, other)]
    assert (digests[0] == digests[1]) == is_same
    assert digests[0] != limits.client_digest(PEPPER, one, use="hour")
    assert digests[0] != limits.client_digest(b"q" * 43, one, use="minute")
