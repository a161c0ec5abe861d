"""Who may still send is a question of time, asked of two clocks."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from postlease.database import connect
from postlease.delivery import draining
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps


SHORT = {
    "CALL_BUDGET_SECONDS": "2",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "1.4",
}
BRIEF = {
    **SHORT,
    "START_MARGIN_SECONDS": "0.5",
    "LEASE_SECONDS": "4",
    "UNKNOWN_GRACE_SECONDS": "40",
}
"""A lease whose end a test can wait for."""


def wait_for_lock_wait(owner: Connection) -> None:
    """Return when a session waits for a lock."""
    deadline = time.monotonic() + 10
    while not owner.execute(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    ).fetchall():
        assert time.monotonic() < deadline, "nobody waits for a lock"


def wait_until_ready(owner: Connection) -> None:
    """Return when both of a run's lanes have written nothing once."""
    deadline = time.monotonic() + 10
    while len(
        owner.execute(
            "SELECT FROM pg_stat_activity WHERE state = 'idle' AND datname = current_database()"
            " AND (query LIKE '-- outbox.authorize%' OR query LIKE '-- outbox.record%')"
        ).fetchall()
    ) != len(("verdicts", "records")):
        assert time.monotonic() < deadline, "the lanes are not ready"


def test_a_go_that_came_too_late_is_not_used(
    sweeps: Sweeps, owner: Connection, owner_url: str, environment: Callable[..., None]
) -> None:
    """The statement looked at the lease before it waited; the worker's own clock knows better."""
    environment(**BRIEF)
    running = sweeps.start(linger=8)
    wait_until_ready(owner)
    with connect(owner_url) as blocker, blocker.transaction():
        # The claim does not read this table and the dispatch check does.
        blocker.execute("LOCK TABLE postlease.suppressions IN ACCESS EXCLUSIVE MODE")
        [message_id] = arrange.enqueue(owner)
        wait_for_lock_wait(owner)
        lease_ends_at = arrange.row(owner, message_id)["lease_expires_at"]
        owner.execute("SELECT pg_sleep(extract(epoch FROM %s - now()) - 1.2)", [lease_ends_at])
    running.result()
    stored = arrange.row(owner, message_id)
    # Under a fresh lease it is sent after all, and only then.
    assert [attempt["outcome"] for attempt in stored["attempts"]] == ["handed_back", "accepted"]
    assert stored["refunded_count"] == 1
    assert sweeps.provider.counts.requests == 1


def test_a_go_that_never_came_costs_nothing(
    sweeps: Sweeps, owner: Connection, owner_url: str, environment: Callable[..., None]
) -> None:
    """The worker lives and says so: nobody may take it for one that died over this message."""
    environment(**BRIEF)
    [message_id] = arrange.enqueue(owner)
    with connect(owner_url) as blocker, blocker.transaction():
        blocker.execute("LOCK TABLE postlease.suppressions IN ACCESS EXCLUSIVE MODE")
        running = sweeps.start()
        wait_for_lock_wait(owner)
        while not (stored := arrange.row(owner, message_id))["attempts"]:
            time.sleep(0.05)
    assert {attempt["outcome"] for attempt in stored["attempts"]} == {"handed_back"}
    assert stored["refunded_count"] == len(stored["attempts"])
    assert stored["reaped_count"] == 0
    running.result()
    sweeps.run()
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_dispatch_check_that_is_refused_to_everybody_costs_no_message(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    """A missing grant, say: it is not the message's fault, and no worker was lost over it."""
    environment(**BRIEF)
    ids = arrange.enqueue(owner, 3)
    owner.execute("REVOKE SELECT ON postlease.suppressions FROM postlease_application")
    try:
        sweeps.run()
    finally:
        owner.execute("GRANT SELECT ON postlease.suppressions TO postlease_application")
    for message_id in ids:
        stored = arrange.row(owner, message_id)
        assert (stored["status"], stored["reaped_count"]) == ("pending", 0)
        assert stored["attempt_count"] == stored["refunded_count"] == 1
    arrange.pass_time(owner, timedelta(minutes=1))
    environment(
        CALL_BUDGET_SECONDS="20",
        CONNECT_TIMEOUT_SECONDS="2",
        READ_TIMEOUT_SECONDS="10",
        LEASE_SECONDS="45",
    )
    assert sweeps.run().counts["sent"] == 3


def test_a_record_that_is_held_up_keeps_no_other_message_waiting(
    sweeps: Sweeps,
    owner: Connection,
    owner_url: str,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even while a suspect is due, which goes alone."""
    monkeypatch.setattr(draining, "_SUSPECT_TURN_SECONDS", 0.5)
    monkeypatch.setattr(draining, "_DRAIN_SECONDS", 0.5)
    environment(SEND_SLOTS="4")
    [held] = arrange.enqueue(owner)
    sweeps.meets("slow", seconds=1.5)
    running = sweeps.start(linger=15)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    with connect(owner_url) as blocker, blocker.transaction():
        blocker.execute("SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE", [held])
        sweeps.meets("accept")
        suspect, *others = arrange.enqueue(owner, 4)
        owner.execute(
            "UPDATE postlease.email_messages SET reaped_count = 1 WHERE id = %s", [suspect]
        )
        deadline = time.monotonic() + 60
        while {arrange.row(owner, message_id)["status"] for message_id in others} != {"sent"}:
            assert time.monotonic() < deadline, "they wait for the record"
            time.sleep(0.05)
        assert arrange.row(owner, held)["status"] == "sending"
    assert running.result().counts["sent"] == 5


def test_a_late_record_changes_nothing_and_is_told(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    """LSE-02: an answer long after its lease: both ids are logged, the row stands."""
    [message_id] = arrange.enqueue(owner, delivery="at_most_once")
    sweeps.meets("slow", seconds=1.5)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    assert arrange.reap(application)["unknown"].failed == 1
    before = arrange.row(owner, message_id)
    assert running.result().counts["accepted_unrecorded"] == 1
    assert arrange.row(owner, message_id) == before
    assert len(sweeps.inbox()) == 1


def test_time_that_runs_out_leaves_the_rest_claimable_and_uncounted(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    """SCH-03: what cannot be sent in the time left is not held and has lost no attempt."""
    environment(SEND_SLOTS="1", **SHORT)
    ids = arrange.enqueue(owner, 10)
    sweeps.meets("slow", seconds=0.8)
    # A call needs 3 seconds of budget and margin, so the last may start 6 seconds from now.
    tally = sweeps.run(seconds=9)
    done = tally.counts["sent"]
    assert 1 <= done < 10
    assert arrange.statuses(owner) == {"sent": done, "pending": 10 - done}
    for message_id in ids[done:]:
        stored = arrange.row(owner, message_id)
        assert stored["attempt_count"] == stored["refunded_count"]
        assert stored["lease_owner"] is None


def test_an_invocation_without_time_claims_nothing(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(**SHORT)
    arrange.enqueue(owner)
    assert sweeps.run(seconds=2.9).counts["claimed"] == 0
    assert arrange.statuses(owner) == {"pending": 1}


def test_an_accepted_mail_is_recorded_after_its_lease_as_long_as_the_row_is_ours(
    sweeps: Sweeps, owner: Connection, owner_url: str, environment: Callable[..., None]
) -> None:
    """The lease was over when the database came back; the grace, which keeps the row, was not."""
    environment(
        CALL_BUDGET_SECONDS="3.5",
        CONNECT_TIMEOUT_SECONDS="0.5",
        READ_TIMEOUT_SECONDS="2.9",
        START_MARGIN_SECONDS="0.1",
        LEASE_SECONDS="6",
        UNKNOWN_GRACE_SECONDS="40",
    )
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("slow", seconds=1.5)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    with connect(owner_url) as blocker, blocker.transaction():
        blocker.execute("SELECT FROM postlease.email_messages FOR UPDATE")
        owner.execute(
            "SELECT pg_sleep(extract(epoch FROM lease_expires_at - now()) + 0.5)"
            " FROM postlease.email_messages"
        )
    tally = running.result()
    assert (tally.counts["sent"], tally.counts["accepted_unrecorded"]) == (1, 0)
    assert arrange.row(owner, message_id)["status"] == "sent"
