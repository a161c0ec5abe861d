"""An operator's statements: each changes what it names, and nothing else."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from postlease import outbox
from postlease.model import Settlement
from postlease.outbox import Reaped, Wanted
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Connection

SECOND = timedelta(seconds=1)
KEYED: dict[str, Any] = {"provider": "resend", "keeps_keys": True}


def fail(application: Connection, *, code: str = "bad_request") -> UUID:
    """Claim, dispatch and fail the one message that is due."""
    [message] = arrange.dispatch(application)
    outbox.record(
        application,
        [Settlement(message.claim, "failed", "rejected", code=code, failure_reason="rejected")],
    )
    return message.claim.message_id


def lose(owner: Connection, application: Connection, **arguments: Any) -> UUID:
    """A message that was dispatched, and whose lease ended unheard."""
    [message_id] = arrange.enqueue(owner, **arguments)
    arrange.dispatch(application)
    arrange.end_lease(owner, message_id)
    return message_id


def resolve(application: Connection, message_id: UUID, *, as_sent: bool) -> str | None:
    return outbox.resolve(application, message_id, as_sent=as_sent, grace=arrange.GRACE)


def search(application: Connection, limit: int = 100, **wanted: Any) -> list[UUID]:
    return [state.id for state in outbox.search(application, Wanted(**wanted), limit=limit)]


def test_a_retried_message_has_all_its_attempts_and_a_key_of_its_own(
    owner: Connection, application: Connection
) -> None:
    arrange.enqueue(owner)
    message_id = fail(application)
    owner.execute(
        "UPDATE postlease.email_messages SET unknown_count = 1, reaped_count = 2,"
        " blocked_at = now(), blocked_as = 'ses paused', keyed_since = now()"
    )
    assert outbox.retry(application, message_id) == "retried"
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("pending", None)
    assert (stored["retry_count"], stored["attempt_count"]) == (1, 1)
    counts = (
        "unknown_count",
        "reaped_count",
        "blocked_at",
        "blocked_as",
        "keyed_since",
        "finished_at",
    )
    assert [stored[name] for name in counts] == [0, 0, None, None, None, None]
    assert len(stored["attempts"]) == 1
    [message] = arrange.claim(application, owner="worker-b")
    assert (message.claim.attempt, message.retry_count) == (2, 1)
    assert message.attempts_left == arrange.MAX_ATTEMPTS - 1


def test_a_retried_message_may_become_unknown_once_more(
    owner: Connection, application: Connection
) -> None:
    message_id = lose(owner, application, delivery="at_most_once")
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    assert arrange.reap(application)["unknown"] == Reaped(returned=0, failed=1)
    assert outbox.retry(application, message_id) == "retried"
    [message] = arrange.claim(application, owner="worker-b")
    assert arrange.authorize(application, message.claim, **KEYED)[message_id].word == "go"


@pytest.mark.parametrize("status", ["pending", "sending", "sent"])
def test_only_a_failed_message_is_retried(
    owner: Connection, application: Connection, status: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    if status != "pending":
        [message] = arrange.dispatch(application)
        if status == "sent":
            outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert outbox.retry(application, message_id) == "not_failed"
    assert arrange.row(owner, message_id) == before


def test_a_redacted_message_is_not_retried(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner)
    message_id = fail(application)
    owner.execute("UPDATE postlease.email_messages SET redacted_at = now()")
    assert outbox.retry(application, message_id) == "redacted"
    assert arrange.row(owner, message_id)["status"] == "failed"


def test_a_message_that_a_newer_one_replaced_is_not_retried(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    owner.execute(
        "UPDATE postlease.email_messages SET status = 'failed', finished_at = now(),"
        " failure_reason = 'superseded'"
    )
    assert outbox.retry(application, message_id) == "superseded"
    assert arrange.row(owner, message_id)["status"] == "failed"


@pytest.mark.parametrize("ended", ["superseded_at", "redeemed_at"])
def test_a_mail_whose_token_was_replaced_or_used_is_not_retried(
    owner: Connection, application: Connection, ended: str
) -> None:
    message_id, _ = arrange.auth_message(owner)
    fail(application)
    query = {
        "superseded_at": b"UPDATE postlease.verification_tokens SET superseded_at = now()",
        "redeemed_at": b"UPDATE postlease.verification_tokens SET redeemed_at = now()",
    }
    owner.execute(query[ended])
    assert outbox.retry(application, message_id) == "superseded"
    assert arrange.row(owner, message_id)["status"] == "failed"


def test_a_mail_whose_link_is_over_is_not_retried(
    owner: Connection, application: Connection
) -> None:
    message_id, _ = arrange.auth_message(owner)
    fail(application)
    owner.execute(
        "UPDATE postlease.verification_tokens SET expires_at = now() + interval '4 minutes'"
    )
    assert outbox.retry(application, message_id) == "expired"
    assert arrange.row(owner, message_id)["status"] == "failed"


def test_a_mail_whose_link_lives_is_retried(owner: Connection, application: Connection) -> None:
    message_id, _ = arrange.auth_message(owner)
    fail(application)
    assert outbox.retry(application, message_id) == "retried"


def test_a_message_past_its_time_is_not_retried(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner)
    message_id = fail(application)
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() - interval '1 second'")
    assert outbox.retry(application, message_id) == "expired"
    assert arrange.row(owner, message_id)["status"] == "failed"


def test_one_message_is_retried_and_no_other(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner, 2)
    first, second = fail(application), fail(application)
    assert outbox.retry(application, first) == "retried"
    assert arrange.row(owner, second)["status"] == "failed"


@pytest.mark.parametrize("as_sent", [True, False])
def test_a_message_that_was_sent_unheard_is_resolved_by_an_operator_s_word(
    owner: Connection, application: Connection, *, as_sent: bool
) -> None:
    message_id = lose(owner, application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    assert resolve(application, message_id, as_sent=as_sent) == "resolved"
    stored = arrange.row(owner, message_id)
    entry = stored["attempts"][-1]
    if as_sent:
        assert (stored["status"], stored["failure_reason"]) == ("sent", None)
        assert stored["provider_message_id"] == "operator"
        assert (entry["outcome"], entry["code"]) == ("accepted", "operator")
    else:
        assert (stored["status"], stored["failure_reason"]) == ("failed", "outcome_unknown")
        assert (entry["outcome"], entry["code"]) == ("unknown", "operator")
    assert (stored["lease_owner"], stored["keyed_since"]) == (None, None)
    assert stored["finished_at"]


@pytest.mark.parametrize(("as_sent", "status"), [(True, "sent"), (False, "failed")])
def test_a_message_that_failed_as_unknown_is_resolved(
    owner: Connection, application: Connection, *, as_sent: bool, status: str
) -> None:
    message_id = lose(owner, application, delivery="at_most_once")
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    arrange.reap(application)
    assert resolve(application, message_id, as_sent=as_sent) == "resolved"
    stored = arrange.row(owner, message_id)
    assert stored["status"] == status
    assert [entry["outcome"] for entry in stored["attempts"]] == ["unknown"] + (
        ["accepted"] if as_sent else []
    )


@pytest.mark.parametrize("as_sent", [True, False])
def test_a_message_that_failed_later_than_it_became_unknown_is_resolved(
    owner: Connection, application: Connection, *, as_sent: bool
) -> None:
    """The operator speaks of the attempt that nobody answered, not of the one that was refused."""
    message_id = lose(owner, application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    arrange.reap(application)
    [second] = arrange.claim(application, owner="worker-b")
    arrange.authorize(application, second.claim, **KEYED)
    refused = Settlement(second.claim, "failed", "rejected", code="no", failure_reason="rejected")
    outbox.record(application, [refused])
    before = arrange.row(owner, message_id)
    assert resolve(application, message_id, as_sent=as_sent) == "resolved"
    stored = arrange.row(owner, message_id)
    if not as_sent:
        assert stored == before
        return
    assert (stored["status"], stored["failure_reason"]) == ("sent", None)
    unknown, *between, last = stored["attempts"]
    assert [entry["outcome"] for entry in between] == ["rejected"]
    settled = {"outcome": "accepted", "code": "operator", "provider_message_id": "operator"}
    assert last == unknown | settled | {"ended_at": last["ended_at"]}
    assert (last["attempt"], last["owner"]) == (1, "worker-a")
    assert (stored["provider"], before["provider"]) == ("ses", "resend")
    assert stored["dispatched_at"] == datetime.fromisoformat(unknown["dispatched_at"])


def test_of_several_unknown_attempts_the_newest_is_resolved(
    owner: Connection, application: Connection
) -> None:
    message_id = lose(owner, application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    arrange.reap(application)
    arrange.dispatch(application, owner="worker-b")
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    arrange.reap(application)
    full = [{"attempt": 0, "outcome": "deferred"}] * 18
    owner.execute("UPDATE postlease.email_messages SET attempts = %s || attempts", [Jsonb(full)])
    assert resolve(application, message_id, as_sent=True) == "resolved"
    attempts = arrange.row(owner, message_id)["attempts"]
    assert len(attempts) == 20
    assert [entry["attempt"] for entry in attempts if entry["attempt"]] == [1, 2, 2]


def test_a_late_record_finds_a_failed_message_resolved_by_the_operator(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner, delivery="at_most_once")
    [message] = arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE + SECOND)
    arrange.reap(application)
    resolve(application, message_id, as_sent=True)
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}


def test_the_provider_still_knows_better_than_an_operator_who_said_failed(
    owner: Connection, application: Connection
) -> None:
    message_id = lose(owner, application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    resolve(application, message_id, as_sent=False)
    assert outbox.settle_accepted(
        application, message_id=message_id, attempt=1, provider_message_id="ses-1"
    )
    assert arrange.row(owner, message_id)["provider_message_id"] == "ses-1"


def test_a_late_record_finds_its_acceptance_recorded_by_the_operator(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    arrange.end_lease(owner, message_id)
    resolve(application, message_id, as_sent=True)
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}
    assert len(arrange.row(owner, message_id)["attempts"]) == 1


def test_a_message_whose_caller_may_be_alive_is_not_resolved_as_failed(
    owner: Connection, application: Connection
) -> None:
    """The caller's late acceptance is still recorded, and nobody has retried the message."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    arrange.end_lease(owner, message_id, ago=arrange.GRACE - 2 * SECOND)
    before = arrange.row(owner, message_id)
    assert resolve(application, message_id, as_sent=False) == "still_open"
    assert arrange.row(owner, message_id) == before
    assert outbox.retry(application, message_id) == "not_failed"
    assert outbox.record(application, [arrange.sent(message.claim)]) == {message_id}


def test_a_message_is_resolved_as_sent_from_its_lease_s_end_on(
    owner: Connection, application: Connection
) -> None:
    """Nothing is sent again then, and a late record of the same acceptance counts."""
    message_id = lose(owner, application)
    assert resolve(application, message_id, as_sent=True) == "resolved"
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_message_under_a_running_lease_is_not_resolved(
    owner: Connection, application: Connection
) -> None:
    """Its worker will say what became of it."""
    [message_id] = arrange.enqueue(owner)
    arrange.dispatch(application)
    assert resolve(application, message_id, as_sent=True) == "not_unknown"
    assert arrange.row(owner, message_id)["status"] == "sending"


def test_a_message_that_never_left_is_not_resolved(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id)
    assert resolve(application, message_id, as_sent=True) == "not_unknown"
    assert arrange.row(owner, message_id)["status"] == "sending"


@pytest.mark.parametrize("status", ["pending", "sent", "failed"])
def test_a_message_whose_outcome_is_known_is_not_resolved(
    owner: Connection, application: Connection, status: str
) -> None:
    [message_id] = arrange.enqueue(owner)
    if status == "failed":
        fail(application)
    elif status == "sent":
        [message] = arrange.dispatch(application)
        outbox.record(application, [arrange.sent(message.claim)])
    before = arrange.row(owner, message_id)
    assert resolve(application, message_id, as_sent=False) == "not_unknown"
    assert arrange.row(owner, message_id) == before


def wait_for_lock_wait(owner: Connection) -> None:
    """Return when a session waits for a lock."""
    deadline = time.monotonic() + 10
    while not owner.execute(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    ).fetchall():
        assert time.monotonic() < deadline, "nobody waits for a lock"


def test_two_operators_at_once_retry_a_message_once(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    one, other = open_application(), open_application()
    arrange.enqueue(owner)
    message_id = fail(one)
    with ThreadPoolExecutor(1) as threads:
        with one.transaction():
            assert outbox.retry(one, message_id) == "retried"
            second = threads.submit(outbox.retry, other, message_id)
            wait_for_lock_wait(owner)
        assert second.result() == "not_failed"
    assert arrange.row(owner, message_id)["retry_count"] == 1


def test_an_operator_does_not_overrule_a_record_that_came_first(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    one, other = open_application(), open_application()
    arrange.enqueue(owner)
    [message] = arrange.dispatch(one)
    message_id = message.claim.message_id
    arrange.end_lease(owner, message_id)
    with ThreadPoolExecutor(1) as threads:
        with one.transaction():
            outbox.record(one, [arrange.sent(message.claim)])
            second = threads.submit(resolve, other, message_id, as_sent=False)
            wait_for_lock_wait(owner)
        assert second.result() == "not_unknown"
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_what_is_unknown_right_now_is_found(owner: Connection, application: Connection) -> None:
    unknown = lose(owner, application)
    arrange.enqueue(owner, 3)
    never_left, running = arrange.claim(application, 2, owner="worker-b")
    arrange.end_lease(owner, never_left.claim.message_id)
    arrange.authorize(application, running.claim)
    assert search(application, unknown=True) == [unknown]
    found = outbox.search(application, Wanted(), limit=100)
    assert [state.id for state in found if state.is_unknown] == [unknown]


def test_an_unknown_message_that_ended_is_not_unknown_right_now(
    owner: Connection, application: Connection
) -> None:
    message_id = lose(owner, application, delivery="at_most_once")
    arrange.end_lease(owner, message_id, ago=arrange.GRACE)
    arrange.reap(application)
    assert search(application, unknown=True) == []
    assert search(application, reason="outcome_unknown") == [message_id]


def test_messages_are_found_by_status_reason_and_template(
    owner: Connection, application: Connection
) -> None:
    [failed_id] = arrange.enqueue(owner)
    fail(application)
    [pending_id] = arrange.enqueue(owner, template="other")
    assert search(application, status="failed") == [failed_id]
    assert search(application, status="pending") == [pending_id]
    assert search(application, status="sending") == []
    assert search(application, reason="rejected") == [failed_id]
    assert search(application, reason="expired") == []
    assert search(application, template="other") == [pending_id]
    assert search(application) == [pending_id, failed_id]


def test_messages_are_found_by_the_time_they_were_made(
    owner: Connection, application: Connection
) -> None:
    [first, second] = arrange.enqueue(owner, 2)
    arrange.age(owner, first, timedelta(hours=1), "created_at")
    made = arrange.row(owner, second)["created_at"]
    assert search(application, created_from=made) == [second]
    assert search(application, created_before=made) == [first]
    assert search(application, created_from=made + SECOND) == []


def test_a_page_is_continued_below_its_last_message(
    owner: Connection, application: Connection
) -> None:
    ids = arrange.enqueue(owner, 5)
    newest_first = sorted(ids, reverse=True)
    assert search(application, 2) == newest_first[:2]
    assert search(application, 2, below=newest_first[1]) == newest_first[2:4]
    assert search(application, 2, below=newest_first[4]) == []
    assert search(application, 2, status="pending", below=newest_first[1]) == newest_first[2:4]
