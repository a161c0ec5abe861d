"""Delivery by name: what a doorbell may claim, and what it leaves to whoever has it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from psycopg.conninfo import make_conninfo

from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps


def test_it_sends_exactly_the_messages_that_are_named(sweeps: Sweeps, owner: Connection) -> None:
    first, second, other = arrange.enqueue(owner, 3)
    tally = sweeps.ring(second, first)
    assert (tally.counts["claimed"], tally.counts["sent"]) == (2, 2)
    assert tally.unseen == set()
    assert {mail["to"][0] for mail in sweeps.inbox()} == {
        "reader0@example.com",
        "reader1@example.com",
    }
    assert arrange.row(owner, other)["status"] == "pending"


def test_a_name_that_stands_twice_is_sent_once(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    assert sweeps.ring(message_id, message_id).counts["sent"] == 1
    assert sweeps.ring(message_id).counts.total() == 0
    assert len(sweeps.inbox()) == 1
    assert arrange.row(owner, message_id)["attempt_count"] == 1


def test_two_that_are_told_the_same_at_once_send_it_once(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("slow", seconds=0.3)
    running = [sweeps.start_ring(message_id) for _ in range(3)]
    assert sum(run.result().counts["sent"] for run in running) == 1
    assert len(sweeps.inbox()) == 1


def test_a_name_that_nobody_has_claims_nothing_quietly(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    tally = sweeps.ring(uuid4())
    assert tally.counts.total() == 0
    assert tally.unseen == set()
    assert arrange.row(owner, message_id)["status"] == "pending"


def test_what_is_not_due_is_not_claimed_by_name(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(hours=-1), "available_at")
    assert sweeps.ring(message_id).counts.total() == 0
    assert sweeps.inbox() == []


def test_what_is_too_late_does_not_leave_by_name(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(hours=1), "available_at", "created_at")
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'")
    assert sweeps.ring(message_id).counts["expired"] == 1
    assert sweeps.inbox() == []


def test_more_names_than_slots_are_all_sent_and_never_hoarded(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(SEND_SLOTS="2")
    ids = arrange.enqueue(owner, 7)
    sweeps.meets("slow", 2, seconds=0.5)
    running = sweeps.start_ring(*ids)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 2, seconds=30)
    assert arrange.statuses(owner) == {"sending": 2, "pending": 5}
    assert running.result().counts["sent"] == 7


def test_without_the_time_for_a_call_nothing_is_claimed_and_all_is_unseen(
    sweeps: Sweeps, owner: Connection
) -> None:
    ids = arrange.enqueue(owner, 2)
    tally = sweeps.ring(*ids, seconds=10.5)
    assert tally.unseen == set(ids)
    assert tally.counts["claimed"] == 0
    assert arrange.statuses(owner) == {"pending": 2}


def test_without_a_database_all_is_unseen(
    sweeps: Sweeps, owner: Connection, application_conninfo: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    away = sweeps.at(make_conninfo(application_conninfo, port=1))
    tally = away.ring(message_id)
    assert tally.unseen == {message_id}
    assert tally.counts == {"database_unavailable": 1}
    assert sweeps.ring(message_id).counts["sent"] == 1


def test_a_suspect_is_left_to_the_sweep_which_sends_it_alone(
    sweeps: Sweeps, owner: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    owner.execute(
        "UPDATE postlease.email_messages SET reaped_count = 1, attempt_count = 1,"
        " refunded_count = 1"
    )
    assert sweeps.ring(message_id).counts.total() == 0
    assert sweeps.run().counts["sent"] == 1


def test_what_waited_is_timed_from_due_to_the_call(sweeps: Sweeps, owner: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(seconds=5), "available_at", "created_at")
    tally = sweeps.ring(message_id)
    [waited], [accepted] = tally.wait_milliseconds, tally.latency_milliseconds
    assert 5_000 <= waited <= accepted < 60_000
