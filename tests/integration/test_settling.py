"""The provider's event proves that an attempt was accepted: then, before, and behind our record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from postlease import outbox
from postlease.delivery import outcomes
from postlease.model import Settlement
from postlease.outbox.reaping import LOST_WORKERS_LIMIT
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import ClaimedMessage

SECOND = timedelta(seconds=1)


def settle(connection: Connection, message_id: UUID, attempt: int = 1) -> bool:
    return outbox.settle_accepted(
        connection, message_id=message_id, attempt=attempt, provider_message_id="from-the-event"
    )


def unknown(
    owner: Connection, application: Connection, *, worker: str = "worker-a", **arguments: Any
) -> ClaimedMessage:
    """A message whose first call was not answered and that its policy has settled since."""
    [message_id] = arrange.enqueue(owner, **arguments)
    [message] = arrange.dispatch(application, owner=worker)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    arrange.reap(application)
    return message


def test_an_event_ends_what_is_being_sent(owner: Connection, application: Connection) -> None:
    """It comes before the answer, or instead of it."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    assert settle(application, message_id)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["provider_message_id"]) == ("sent", "from-the-event")
    assert stored["sent_at"] == stored["finished_at"]
    assert (stored["lease_owner"], stored["lease_expires_at"]) == (None, None)
    [entry] = stored["attempts"]
    assert (entry["outcome"], entry["code"], entry["owner"]) == (
        "accepted",
        "event",
        message.claim.owner,
    )
    assert (entry["attempt"], entry["provider_message_id"]) == (1, "from-the-event")
    assert entry["dispatched_at"] is not None


def test_the_worker_s_own_record_behind_the_event_counts_and_changes_nothing(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    settle(application, message_id)
    before = arrange.row(owner, message_id)
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}
    assert arrange.row(owner, message_id) == before


def test_an_event_behind_the_record_changes_nothing(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert not settle(application, message_id)
    assert arrange.row(owner, message_id) == before


def test_a_doubled_event_changes_nothing(owner: Connection, application: Connection) -> None:
    message = unknown(owner, application)
    assert settle(application, message.claim.message_id)
    before = arrange.row(owner, message.claim.message_id)
    assert not settle(application, message.claim.message_id)
    assert arrange.row(owner, message.claim.message_id) == before


def test_an_unknown_message_that_waits_is_sent_by_its_event_and_not_claimed_again(
    owner: Connection, application: Connection
) -> None:
    message = unknown(owner, application, delivery="at_least_once")
    message_id = message.claim.message_id
    assert arrange.row(owner, message_id)["status"] == "pending"
    assert settle(application, message_id)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["unknown_count"]) == ("sent", 1)
    assert stored["dispatched_at"] is not None
    assert [entry["outcome"] for entry in stored["attempts"]] == ["unknown", "accepted"]
    assert arrange.claim(application, owner="worker-b") == []


def test_an_unknown_message_that_failed_is_sent_by_its_event(
    owner: Connection, application: Connection
) -> None:
    message = unknown(owner, application, delivery="at_most_once")
    message_id = message.claim.message_id
    assert arrange.row(owner, message_id)["failure_reason"] == "outcome_unknown"
    assert settle(application, message_id)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("sent", None)


def test_a_late_worker_finds_its_attempt_recorded_and_changes_nothing(
    owner: Connection, application: Connection
) -> None:
    message = unknown(owner, application)
    message_id = message.claim.message_id
    settle(application, message_id)
    before = arrange.row(owner, message_id)
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}
    assert arrange.row(owner, message_id) == before


def test_a_message_that_was_claimed_again_is_not_sent_again(
    owner: Connection, application: Connection
) -> None:
    first = unknown(owner, application)
    [second] = arrange.claim(application, owner="worker-b")
    assert settle(application, first.claim.message_id, attempt=1)
    stored = arrange.row(owner, first.claim.message_id)
    assert stored["status"] == "sent"
    assert [entry["outcome"] for entry in stored["attempts"]] == ["unknown", "accepted"]
    assert arrange.authorize(application, second.claim) == {}
    assert outbox.record(application, [arrange.sent(second.claim)]) == frozenset()


def test_an_older_event_ends_a_message_whose_newer_call_has_left(
    owner: Connection, application: Connection
) -> None:
    """It was accepted: whatever becomes of the newer call, there must be no third one."""
    first = unknown(owner, application)
    message_id = first.claim.message_id
    [second] = arrange.dispatch(application, owner="worker-b")
    assert settle(application, message_id, attempt=1)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["lease_owner"]) == ("sent", None)
    told = [(e["attempt"], e["outcome"], e["code"]) for e in stored["attempts"]]
    assert told == [(1, "unknown", None), (2, "unknown", "overtaken"), (1, "accepted", "event")]
    assert stored["attempts"][1]["owner"] == "worker-b"
    assert stored["dispatched_at"] < datetime.fromisoformat(stored["attempts"][1]["dispatched_at"])
    assert outbox.record(application, [arrange.sent(second.claim)]) == frozenset()
    assert not settle(application, message_id, attempt=second.claim.attempt)


@pytest.mark.parametrize("attempt", [1, 3])
def test_an_event_of_an_attempt_that_is_not_open_changes_nothing(
    owner: Connection, application: Connection, attempt: int
) -> None:
    """Of the first one the provider said that it was not accepted; the third was never made."""
    [message_id] = arrange.enqueue(owner)
    [first] = arrange.dispatch(application)
    handed_back = outbox.record(application, [outcomes.handed_back(first.claim)])
    assert handed_back == {message_id}
    for look in range(2):
        before = arrange.row(owner, message_id)
        assert not settle(application, message_id, attempt=attempt)
        assert arrange.row(owner, message_id) == before
        if not look:
            arrange.claim(application, owner="worker-b")


def test_an_event_of_an_attempt_that_was_never_made_changes_nothing(
    owner: Connection, application: Connection
) -> None:
    message = unknown(owner, application)
    before = arrange.row(owner, message.claim.message_id)
    assert not settle(application, message.claim.message_id, attempt=7)
    assert arrange.row(owner, message.claim.message_id) == before


def end_expired(owner: Connection, application: Connection) -> None:
    owner.execute("UPDATE postlease.email_messages SET expires_at = now()")
    arrange.reap(application)


def end_with_lost_workers(owner: Connection, application: Connection) -> None:
    for number in range(LOST_WORKERS_LIMIT):
        [message] = arrange.claim(application, owner=f"lost-{number}", suspects=number > 0)
        arrange.end_lease(owner, message.claim.message_id)
        arrange.reap(application)


def end_used_up(owner: Connection, application: Connection) -> None:
    owner.execute("UPDATE postlease.email_messages SET max_attempts = 1")
    [message] = arrange.claim(application, owner="worker-b")
    arrange.authorize(application, message.claim)


def end_suppressed(owner: Connection, application: Connection) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason) VALUES (%s, 'bounce')",
        [bytes(32)],
    )
    [message] = arrange.claim(application, owner="worker-b")
    addressees = (outbox.Addressee(bytes(32), is_to=True),)
    arrange.authorize(application, message.claim, addressees=addressees)


def end_rejected(owner: Connection, application: Connection) -> None:
    """Through another provider, by a call of its own."""
    [message] = arrange.claim(application, owner="worker-b")
    arrange.authorize(application, message.claim, provider="resend")
    refused = Settlement(message.claim, "failed", "rejected", code="no", failure_reason="rejected")
    outbox.record(application, [refused])


ENDS: dict[str, Callable[[Connection, Connection], None]] = {
    "expired": end_expired,
    "worker_lost": end_with_lost_workers,
    "attempts_exhausted": end_used_up,
    "suppressed": end_suppressed,
    "rejected": end_rejected,
}


@pytest.mark.parametrize("reason", ENDS)
def test_an_unknown_message_that_ended_for_another_reason_is_sent_by_its_event(
    owner: Connection, application: Connection, reason: str
) -> None:
    """The reason tells of the last attempt; the event, of the first, which was accepted."""
    message = unknown(owner, application)
    message_id = message.claim.message_id
    ENDS[reason](owner, application)
    ended = arrange.row(owner, message_id)
    assert (ended["status"], ended["failure_reason"]) == ("failed", reason)
    assert settle(application, message_id)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("sent", None)
    assert stored["attempts"][:-1] == ended["attempts"]
    first, last = stored["attempts"][0], stored["attempts"][-1]
    assert (last["attempt"], last["outcome"], last["code"]) == (1, "accepted", "event")
    # What stands beside the provider's id is the call that it names.
    assert stored["provider"] == last["provider"] == "ses"
    assert stored["dispatched_at"] == datetime.fromisoformat(first["dispatched_at"])


def test_an_unknown_mail_that_a_newer_one_replaced_is_sent_by_its_event(
    owner: Connection, application: Connection
) -> None:
    message_id, token_id = arrange.auth_message(owner)
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    arrange.reap(application)
    outbox.supersede(application, [token_id])
    assert arrange.row(owner, message_id)["failure_reason"] == "superseded"
    assert settle(application, message_id)
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_message_that_failed_and_was_never_unknown_is_not_sent_by_an_event(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    end_rejected(owner, application)
    before = arrange.row(owner, message_id)
    assert not settle(application, message_id)
    assert arrange.row(owner, message_id) == before


def test_an_event_of_a_message_that_is_gone_or_never_was_changes_nothing(
    owner: Connection, application: Connection
) -> None:
    [other] = arrange.enqueue(owner)
    arrange.dispatch(application)
    before = arrange.row(owner, other)
    assert not settle(application, uuid4())
    assert arrange.row(owner, other) == before


def test_the_last_twenty_entries_are_kept(owner: Connection, application: Connection) -> None:
    message = unknown(owner, application)
    owner.execute(
        "UPDATE postlease.email_messages SET attempts ="
        " (SELECT jsonb_agg(jsonb_build_object('attempt', 0, 'outcome', 'deferred'))"
        " FROM generate_series(1, 19)) || attempts"
    )
    assert settle(application, message.claim.message_id)
    attempts = arrange.row(owner, message.claim.message_id)["attempts"]
    assert len(attempts) == 20
    assert [entry["outcome"] for entry in attempts[-2:]] == ["unknown", "accepted"]


def test_an_event_that_waits_for_the_record_finds_it_done(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    [message_id] = arrange.enqueue(owner)
    worker, feedback = open_application(), open_application()
    [message] = arrange.dispatch(worker)
    with ThreadPoolExecutor(1) as beside:
        with worker.transaction():
            outbox.record(worker, [arrange.sent(message.claim)])
            settled = beside.submit(settle, feedback, message_id)
            wait_for_a_waiter(owner)
        assert not settled.result()
    assert arrange.row(owner, message_id)["provider_message_id"] == "provider-1"


def test_a_record_that_waits_for_the_event_counts_as_recorded(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    [message_id] = arrange.enqueue(owner)
    worker, feedback = open_application(), open_application()
    [message] = arrange.dispatch(worker)
    with ThreadPoolExecutor(1) as beside:
        with feedback.transaction():
            assert settle(feedback, message_id)
            recorded = beside.submit(outbox.record, worker, [arrange.sent(message.claim)])
            wait_for_a_waiter(owner)
        assert recorded.result() == {message_id}
    stored = arrange.row(owner, message_id)
    assert (stored["provider_message_id"], len(stored["attempts"])) == ("from-the-event", 1)


def test_an_event_that_waits_for_the_reaper_sees_what_it_made(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    [message_id] = arrange.enqueue(owner)
    reaper, feedback = open_application(), open_application()
    arrange.dispatch(reaper)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    with ThreadPoolExecutor(1) as beside:
        with reaper.transaction():
            assert arrange.reap(reaper)["unknown"].returned == 1
            settled = beside.submit(settle, feedback, message_id)
            wait_for_a_waiter(owner)
        assert settled.result()
    stored = arrange.row(owner, message_id)
    assert stored["status"] == "sent"
    assert [entry["outcome"] for entry in stored["attempts"]] == ["unknown", "accepted"]


def test_the_reaper_leaves_alone_what_an_event_holds(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    [message_id] = arrange.enqueue(owner)
    reaper, feedback = open_application(), open_application()
    arrange.dispatch(reaper)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    with feedback.transaction():
        assert settle(feedback, message_id)
        assert arrange.reap(reaper)["unknown"].total == 0
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_records_and_events_over_the_same_rows_in_opposite_order_do_not_block_each_other(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    number, batch = 400, 40
    arrange.enqueue(owner, number)
    worker, feedback = open_application(), open_application()
    claims = [message.claim for message in arrange.dispatch(worker, number)]
    claims.sort(key=lambda claim: claim.message_id, reverse=True)
    ids = sorted(claim.message_id for claim in claims)
    with ThreadPoolExecutor(2) as both:
        settled = both.submit(lambda: [settle(feedback, message_id) for message_id in ids])
        recorded = both.submit(
            lambda: [
                outbox.record(worker, [arrange.sent(claim) for claim in claims[start:][:batch]])
                for start in range(0, number, batch)
            ]
        )
        assert frozenset().union(*recorded.result()) == frozenset(ids)
        assert len(settled.result()) == number
    assert arrange.statuses(owner) == {"sent": number}
    doubled = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages WHERE jsonb_array_length(attempts) <> 1"
    ).fetchone()
    assert doubled == {"n": 0}


def wait_for_a_waiter(owner: Connection) -> None:
    """Wait until one of our statements waits for a lock."""
    for _ in range(1_000):
        row = owner.execute(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND pg_sleep(0.005) IS NOT NULL"
        ).fetchone()
        if row and row["n"]:
            return
    pytest.fail("nobody waits")
