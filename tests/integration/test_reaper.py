"""What dead workers held comes back without an operator, and ends when it must."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from postlease import outbox
from postlease.outbox import Reaped
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection

SECOND = timedelta(seconds=1)
NOTHING = {"undispatched": Reaped(0, 0), "unknown": Reaped(0, 0), "late": Reaped(0, 0)}


def test_a_crashed_worker_s_lease_expires_without_an_operator_action(
    owner: Connection, application: Connection
) -> None:
    """LSE-03: killed before the call, it is back with the first reaper after its lease."""
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id)
    assert arrange.reap(application)["undispatched"] == Reaped(returned=1, failed=0)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["lease_owner"]) == ("pending", None)
    assert (stored["attempt_count"], stored["refunded_count"], stored["reaped_count"]) == (1, 1, 1)
    assert stored["attempts"][-1]["outcome"] == "worker_lost"
    [message] = arrange.claim(application, owner="worker-b", suspects=True)
    assert message.claim.message_id == message_id


def test_the_reaper_leaves_a_running_lease_alone(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id, ago=-SECOND)
    before = arrange.row(owner, message_id)
    assert arrange.reap(application) == NOTHING
    assert arrange.row(owner, message_id) == before


def test_the_third_lost_worker_ends_the_message(owner: Connection, application: Connection) -> None:
    """PSN: a message that kills whoever sends it does not kill for ever."""
    [message_id] = arrange.enqueue(owner)
    for number in range(3):
        arrange.claim(application, owner=f"worker-{number}", suspects=number > 0)
        arrange.end_lease(owner, message_id)
        arrange.reap(application)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "worker_lost")


def test_a_dispatched_message_waits_for_the_grace(
    owner: Connection, application: Connection
) -> None:
    """A living caller may still be sending it until then."""
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE - SECOND)
    assert arrange.reap(application) == NOTHING
    assert arrange.row(owner, message_id)["status"] == "sending"


def test_an_unknown_message_is_sent_again_once_where_at_least_once_is_asked(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner, delivery="at_least_once")
    for expected in (Reaped(returned=1, failed=0), Reaped(returned=0, failed=1)):
        arrange.dispatch(application, owner=f"worker-{expected.failed}")
        arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
        assert arrange.reap(application)["unknown"] == expected
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "outcome_unknown")
    assert stored["unknown_count"] == 2
    assert [entry["outcome"] for entry in stored["attempts"]] == ["unknown", "unknown"]


def test_an_unknown_message_is_never_sent_again_where_at_most_once_is_asked(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner, delivery="at_most_once")
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    assert arrange.reap(application)["unknown"] == Reaped(returned=0, failed=1)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "outcome_unknown")


def test_an_unknown_last_attempt_ends_the_message(
    owner: Connection, application: Connection
) -> None:
    """LSE-09: a crash on the very last attempt neither loops nor sticks."""
    [message_id] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET max_attempts = 1")
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    assert arrange.reap(application)["unknown"] == Reaped(returned=0, failed=1)
    assert arrange.row(owner, message_id)["failure_reason"] == "outcome_unknown"


def test_a_message_whose_time_passed_before_its_turn_ends_expired_and_unsent(
    owner: Connection, application: Connection
) -> None:
    late, early, endless = arrange.enqueue(owner, 3)
    owner.execute(
        "UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'"
        " WHERE id = %s",
        [late],
    )
    owner.execute(
        "UPDATE postlease.email_messages SET expires_at = now() + interval '1 hour' WHERE id = %s",
        [early],
    )
    assert arrange.reap(application)["late"] == Reaped(returned=0, failed=1)
    stored = arrange.row(owner, late)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "expired")
    assert {arrange.row(owner, key)["status"] for key in (early, endless)} == {"pending"}


def test_what_was_never_dispatched_is_not_unknown(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    settled = outbox.reap_dispatched(
        application, batch=100, grace=arrange.GRACE, max_attempts=arrange.MAX_ATTEMPTS
    )
    assert settled == Reaped(0, 0)
    assert arrange.row(owner, message_id)["status"] == "sending"


def test_a_message_that_is_being_sent_does_not_expire_under_its_sender(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'")
    assert arrange.reap(application) == NOTHING
    assert arrange.row(owner, message_id)["status"] == "sending"


@pytest.mark.parametrize("dispatched", [False, True])
def test_the_reaper_does_not_overwrite_what_was_recorded_meanwhile(
    owner: Connection, open_application: Callable[[], Connection], *, dispatched: bool
) -> None:
    """LSE-01: the reaper's view is older than the record; the record stands."""
    worker, reaper = open_application(), open_application()
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(worker) if dispatched else arrange.claim(worker)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    with worker.transaction():
        outbox.record(worker, [arrange.sent(message.claim)])
        assert arrange.reap(reaper) == NOTHING
    assert arrange.reap(reaper) == NOTHING
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_the_reaper_does_not_take_what_was_claimed_again_meanwhile(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """LSE-01: the reaper's view is older than the new claim; the new lease stands."""
    worker, reaper = open_application(), open_application()
    [message_id] = arrange.enqueue(owner)
    arrange.claim(worker)
    arrange.end_lease(owner, message_id)
    with worker.transaction():
        assert arrange.reap(worker)["undispatched"].returned == 1
        [again] = arrange.claim(worker, owner="worker-b", suspects=True)
        assert arrange.reap(reaper) == NOTHING
    assert arrange.reap(reaper) == NOTHING
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["lease_owner"]) == ("sending", "worker-b")
    assert outbox.record(worker, [arrange.sent(again.claim)]) == {message_id}


def test_two_reapers_at_once_reap_each_message_once(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    first, second = open_application(), open_application()
    ids = arrange.enqueue(owner, 2)
    arrange.claim(first, 2)
    for message_id in ids:
        arrange.end_lease(owner, message_id)
    with first.transaction():
        assert outbox.reap_undispatched(first, batch=1) == Reaped(returned=1, failed=0)
        assert outbox.reap_undispatched(second, batch=100) == Reaped(returned=1, failed=0)
    assert arrange.statuses(owner) == {"pending": 2}
    assert {arrange.row(owner, key)["reaped_count"] for key in ids} == {1}


def test_every_stuck_message_is_reached_batch_after_batch(
    owner: Connection, application: Connection
) -> None:
    """LSE-06: a lease that ended years ago is as reachable as one that ended just now."""
    ids = arrange.enqueue(owner, 25)
    arrange.claim(application, 25)
    for place, message_id in enumerate(ids):
        arrange.end_lease(owner, message_id, ago=timedelta(days=place * 100) + SECOND)
    runs = [outbox.reap_undispatched(application, batch=10).total for _ in range(4)]
    assert runs == [10, 10, 5, 0]
    assert arrange.statuses(owner) == {"pending": 25}


@pytest.mark.parametrize("column", ["lease_expires_at", "claimed_at", "lease_owner"])
def test_nothing_is_being_sent_without_a_lease(
    owner: Connection, application: Connection, column: str
) -> None:
    """LSE-06: a row that no reaper would find cannot be."""
    arrange.enqueue(owner)
    arrange.claim(application)
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        owner.execute(
            sql.SQL("UPDATE postlease.email_messages SET {} = NULL").format(sql.Identifier(column))
        )
    assert caught.value.diag.constraint_name == "email_messages_lease_when_sending"


def test_the_metrics_tell_backlog_age_expired_leases_and_unknown_outcomes(
    owner: Connection, application: Connection
) -> None:
    """RET-03: a queue that nobody serves shows, and an empty one says so in zeros."""
    assert outbox.backlog(application) == outbox.Backlog(0, 0, 0, 0, 0.0)
    waiting, crashed, unknown = arrange.enqueue(owner, 3)
    arrange.age(owner, waiting, timedelta(hours=-1), "available_at")
    arrange.age(owner, crashed, timedelta(hours=1), "available_at")
    arrange.claim(application, 1)
    arrange.dispatch(application, 1, owner="worker-b")
    arrange.age(owner, waiting, timedelta(hours=3), "available_at")
    for message_id in (crashed, unknown):
        arrange.end_lease(owner, message_id)
    found = outbox.backlog(application)
    assert (found.queued, found.sending, found.expired_leases, found.unknown) == (1, 2, 2, 1)
    assert found.oldest_due_seconds == pytest.approx(2 * 3600, abs=60)


def test_only_messages_of_the_auth_api_have_a_public_state(
    owner: Connection, application: Connection
) -> None:
    [foreign] = arrange.enqueue(owner)
    own, _ = arrange.auth_message(owner)
    assert outbox.event_state(application, foreign) is None
    state = outbox.event_state(application, own)
    assert state is not None
    assert (state.status, state.failure_reason) == ("pending", None)
