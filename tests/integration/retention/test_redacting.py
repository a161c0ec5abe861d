"""Auth mail that finished loses what it said and to whom, long before its row leaves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from postlease import outbox, retention
from tests import arrange
from tests.integration.retention.conftest import AGE, OLD, Bucket, always, attach, finished

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection, Database

WEEK = timedelta(days=7, minutes=1)
YOUNG = timedelta(days=7, minutes=-1)


def redacted(database: Database) -> int:
    """How many a run redacted that had time for a dozen looks."""
    left = iter(range(12))
    return retention.run(database, age=AGE, has_time=lambda: next(left, None) is not None).redacted


def finished_auth(
    owner: Connection, application: Connection, ago: timedelta, email: str = "ada@example.com"
) -> UUID:
    """A verification mail that went the whole way, ago."""
    message_id, _ = arrange.auth_message(owner, email=email)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    arrange.age(owner, message_id, ago, "created_at", "available_at", "sent_at", "finished_at")
    return message_id


def test_auth_mail_that_finished_a_week_ago_loses_parameters_names_and_addresses(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    old = finished_auth(owner, application, WEEK)
    young = finished_auth(owner, application, YOUNG, "grace@example.com")
    owner.execute(
        "UPDATE postlease.email_messages SET reply_to = 'ada@example.com',"
        " recipient_names = jsonb_build_object(to_addresses[1], 'Ada'),"
        ' parameters = \'{"name": "Ada"}\''
    )
    assert redacted(database) == 1
    row = arrange.row(owner, old)
    assert "ada" not in str(row).lower()
    assert (row["parameters"], row["to_addresses"]) == ({}, [outbox.REDACTED_ADDRESS])
    assert (row["status"], row["redacted_at"] is not None) == ("sent", True)
    kept = arrange.row(owner, young)
    assert (kept["to_addresses"], kept["redacted_at"]) == (["grace@example.com"], None)


def test_mail_is_redacted_once_and_only_if_it_is_auth_mail(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished_auth(owner, application, WEEK)
    [receipt] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    arrange.age(owner, receipt, WEEK, "created_at", "available_at", "sent_at", "finished_at")
    assert redacted(database) == 1
    assert redacted(database) == 0
    assert arrange.row(owner, receipt)["to_addresses"] == ["reader0@example.com"]


@pytest.mark.parametrize("status", ["pending", "sending"])
def test_mail_that_is_not_finished_is_not_redacted_however_old_it_is(
    owner: Connection, application: Connection, database: Database, bucket: Bucket, status: str
) -> None:
    message_id, _ = arrange.auth_message(owner)
    if status == "sending":
        arrange.dispatch(application)
        arrange.age(owner, message_id, OLD, "claimed_at", "lease_expires_at")
    arrange.age(owner, message_id, OLD, "created_at", "available_at")
    assert redacted(database) == 0
    assert arrange.row(owner, message_id)["to_addresses"] == ["reader@example.com"]


def test_redaction_comes_in_chunks_and_before_anything_leaves(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    for place in range(3):
        finished_auth(owner, application, OLD, f"reader{place}@example.com")
    left = iter(range(2))
    first = retention.run(database, age=AGE, has_time=lambda: next(left, None) is not None, chunk=2)
    assert (first.redacted, first.messages, first.complete) == (3, 0, False)


def test_a_token_leaves_a_month_after_its_end_and_after_its_message(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    """Three: expired a month ago, without a message and with one, and expired a bit later."""
    finished_auth(owner, application, WEEK)
    user = arrange.user(owner, "grace@example.com")
    tokens = [
        arrange.token(owner, user, version=1),
        owner.execute("SELECT token_id FROM postlease.email_messages").fetchone()["token_id"],  # type: ignore[index]
    ]
    owner.execute("UPDATE postlease.verification_tokens SET superseded_at = now()")
    late = arrange.token(owner, user, version=2)
    owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '60 days',"
        "     expires_at = now() - interval '30 days' + CASE WHEN id = ANY (%s)"
        "         THEN interval '-1 minute' ELSE interval '1 minute' END",
        [tokens],
    )
    assert retention.run(database, age=AGE, has_time=always).tokens == 1
    left = {row["id"] for row in owner.execute("SELECT id FROM postlease.verification_tokens")}
    assert left == {tokens[1], late}


def test_what_waits_for_more_than_a_day_is_counted_and_stays(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    old, young, later = arrange.enqueue(owner, 3)
    arrange.age(owner, old, timedelta(days=200), "created_at", "available_at")
    arrange.age(owner, young, timedelta(hours=23), "created_at", "available_at")
    arrange.age(owner, later, timedelta(days=200), "created_at")
    retained = retention.run(database, age=AGE, has_time=always)
    assert (retained.old_pending, retained.messages) == (1, 0)
    assert arrange.statuses(owner) == {"pending": 3}


def test_a_rehearsal_says_what_a_run_removes_and_changes_nothing(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    [message_id] = finished(owner, application)
    finished_auth(owner, application, WEEK)
    attach(owner, message_id, "attachments/uploads/a.pdf", bucket.put("attachments/uploads/a.pdf"))
    owner.execute(
        "INSERT INTO postlease.idempotency_keys (key_digest, request_digest, expires_at)"
        " VALUES (sha256('k'), sha256('r'), now() - interval '1 minute')"
    )
    owner.execute(
        "INSERT INTO postlease.rate_limits (limit_digest, window_started_at, window_ends_at, used)"
        " VALUES (sha256('w'), now() - interval '2 days', now() - interval '1 day', 1)"
    )
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason, expires_at)"
        " VALUES (sha256('a'), 'manual', now() - interval '1 minute'),"
        "        (sha256('b'), 'manual', NULL)"
    )
    owner.execute(
        "INSERT INTO postlease.bounces (address_digest, event_digest, happened_at)"
        " VALUES (sha256('a'), sha256('e'), now() - interval '31 days')"
    )
    bucket.put("archive/1999-12-31/a.jsonl.gz")
    bucket.put("archive/2999-12-31/a.jsonl.gz")
    rules = retention.Rules("both")
    rehearsal = retention.rehearse(database, age=AGE, has_time=always, rules=rules)
    assert arrange.statuses(owner) == {"sent": 2}
    assert rehearsal.complete
    assert bucket.versions()
    retained = retention.run(database, age=AGE, has_time=always, rules=rules)
    names = ("messages", "objects", "keys", "windows", "redacted", "tokens", "orphans")
    names += ("list_entries", "archive_files")
    assert [getattr(rehearsal, name) for name in names] == [
        getattr(retained, name) for name in names
    ]
    assert (retained.messages, retained.objects, retained.redacted) == (1, 1, 1)
    assert (retained.list_entries, retained.archive_files) == (2, 1)
