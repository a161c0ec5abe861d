"""What is old leaves, with what it owned; nothing that is unfinished, nothing that is shared."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import attachments, outbox, retention
from postlease import database as databases
from postlease.database import Database
from postlease.errors import DatabaseError, UnavailableError
from postlease.retention import Retained, duties
from tests import arrange
from tests.conftest import ROOT
from tests.integration.retention.conftest import AGE, OLD, Bucket, always, attach, finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from postlease.database import Connection

YOUNG = timedelta(days=89)


def rounds(number: int) -> Callable[[], bool]:
    """Time for so many rounds."""
    left = iter(range(number))
    return lambda: next(left, None) is not None


def run(database: Database, **arguments: Any) -> Retained:
    return retention.run(database, **{"age": AGE, "has_time": always} | arguments)


def ids(owner: Connection) -> set[UUID]:
    return {row["id"] for row in owner.execute("SELECT id FROM postlease.email_messages")}


def notes(owner: Connection) -> list[str]:
    rows = owner.execute("SELECT storage_ref FROM postlease.attachment_deletions ORDER BY id")
    return [row["storage_ref"] for row in rows]


def with_own_object(
    owner: Connection, application: Connection, bucket: Bucket, number: int = 1
) -> list[str]:
    """The keys of objects, each owned by an old, finished message."""
    keys = []
    for place, message_id in enumerate(finished(owner, application, number)):
        keys.append(f"attachments/uploads/{place}.pdf")
        attach(owner, message_id, keys[-1], bucket.put(keys[-1]))
    return keys


def test_only_what_finished_longer_ago_than_its_age_leaves(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    [young] = finished(owner, application, ago=YOUNG)
    finished(owner, application, ago=OLD)
    assert run(database) == Retained(messages=1, objects=0, keys=0, windows=0, complete=True)
    assert ids(owner) == {young}


def test_what_was_asked_for_long_ago_but_finished_lately_stays(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    [message_id] = finished(owner, application, ago=YOUNG)
    arrange.age(owner, message_id, timedelta(days=100), "created_at", "available_at")
    assert run(database).messages == 0
    assert ids(owner) == {message_id}


def test_nothing_unfinished_leaves_however_old_it_is(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    arrange.enqueue(owner, 3)
    [claimed] = arrange.claim(application)
    [dispatched] = arrange.dispatch(application, owner="worker-b")
    for message_id in ids(owner):
        arrange.age(owner, message_id, timedelta(days=1000), "created_at", "available_at")
    for message in (claimed, dispatched):
        arrange.age(
            owner,
            message.claim.message_id,
            timedelta(days=1000),
            "claimed_at",
            "lease_expires_at",
        )
    assert run(database).messages == 0
    assert arrange.statuses(owner) == {"pending": 1, "sending": 2}


def test_every_end_leaves_alike(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    """Sent, failed for good, reaped, expired: each made by the product's own statements."""
    finished(owner, application)
    _, token_id = arrange.auth_message(owner)
    outbox.supersede(application, [token_id])
    arrange.enqueue(owner, delivery="at_most_once")
    [unknown] = arrange.dispatch(application, owner="worker-b")
    arrange.end_lease(owner, unknown.claim.message_id, ago=arrange.GRACE * 2)
    [late] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET expires_at = now() WHERE id = %s", [late])
    arrange.reap(application)
    assert arrange.statuses(owner) == {"sent": 1, "failed": 3}
    owner.execute(
        "UPDATE postlease.email_messages SET created_at = created_at - interval '91 days',"
        " finished_at = finished_at - interval '91 days'"
        " WHERE finished_at > now() - interval '1 day'"
    )
    assert run(database).messages == 4
    assert ids(owner) == set()


def test_messages_leave_in_chunks_each_committed_by_itself(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished(owner, application, 5)
    seen: list[int] = []

    def watch() -> bool:
        seen.append(len(ids(owner)))
        return True

    assert run(database, has_time=watch, chunk=2).messages == 5
    # A look for each of what waits for no message, then one for each chunk and one that finds none.
    assert seen[:8] == [5, 5, 5, 5, 5, 3, 1, 0]


def test_a_run_out_of_time_stops_and_the_next_goes_on(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    """RET-01: each chunk that was committed stays gone, whatever ends the run."""
    finished(owner, application, 5)
    first = run(database, has_time=rounds(4 + 2), chunk=2)
    assert (first.messages, first.complete) == (4, False)
    second = run(database, chunk=2)
    assert (second.messages, second.complete) == (1, True)


def test_a_run_without_time_removes_nothing(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished(owner, application)
    assert run(database, has_time=lambda: False) == Retained(0, 0, 0, 0, complete=False)
    assert len(ids(owner)) == 1


@pytest.mark.parametrize("time_for", range(1, 9))
def test_a_run_that_ended_before_it_had_looked_everywhere_is_not_complete(
    owner: Connection, database: Database, bucket: Bucket, time_for: int
) -> None:
    """Six kinds of rows, then objects and uploads: eight looks."""
    assert run(database, has_time=rounds(time_for)).complete is (time_for == 8)


def test_own_objects_leave_with_their_messages_by_version_and_leave_no_marker(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    keys = with_own_object(owner, application, bucket, 3)
    other_version = bucket.put(keys[0], b"a later upload under the same key")
    assert run(database) == Retained(messages=3, objects=3, keys=0, windows=0, complete=True)
    assert bucket.versions() == {(keys[0], other_version)}
    assert bucket.delete_markers() == []
    assert notes(owner) == []


def test_shared_objects_stay(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    one, other = finished(owner, application, 2)
    version = bucket.put("attachments/terms.pdf")
    for message_id in (one, other):
        attach(owner, message_id, "attachments/terms.pdf", version)
    assert run(database) == Retained(messages=2, objects=0, keys=0, windows=0, complete=True)
    assert bucket.versions() == {("attachments/terms.pdf", version)}


def test_objects_of_messages_that_stay_stay(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    [message_id] = finished(owner, application, ago=YOUNG)
    version = bucket.put("attachments/uploads/kept.pdf")
    attach(owner, message_id, "attachments/uploads/kept.pdf", version)
    assert run(database).objects == 0
    assert bucket.versions() == {("attachments/uploads/kept.pdf", version)}


def test_a_chunk_that_is_not_committed_loses_neither_message_nor_object(
    owner: Connection, application: Connection, bucket: Bucket
) -> None:
    with_own_object(owner, application, bucket)
    with application.transaction(force_rollback=True):
        assert outbox.purge(application, age=AGE, chunk=10) == 1
    assert len(ids(owner)) == 1
    assert notes(owner) == []
    assert attachments.delete_noted(application).objects == 0
    assert len(bucket.versions()) == 1


def test_a_crash_after_the_messages_left_loses_no_object(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    keys = with_own_object(owner, application, bucket, 2)
    with application.transaction():
        assert outbox.purge(application, age=AGE, chunk=10) == 2
    assert sorted(notes(owner)) == keys
    assert run(database) == Retained(messages=0, objects=2, keys=0, windows=0, complete=True)
    assert bucket.versions() == set()


def test_a_crash_before_the_notes_are_forgotten_deletes_again_harmlessly(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    keys = with_own_object(owner, application, bucket, 2)
    owner.execute("REVOKE DELETE ON postlease.attachment_deletions FROM postlease_application")
    try:
        with pytest.raises(DatabaseError):
            run(database)
    finally:
        owner.execute("GRANT DELETE ON postlease.attachment_deletions TO postlease_application")
    assert bucket.versions() == set()
    assert sorted(notes(owner)) == keys
    assert run(database) == Retained(messages=0, objects=2, keys=0, windows=0, complete=True)
    assert notes(owner) == []
    assert bucket.delete_markers() == []


def test_an_object_that_the_storage_refuses_keeps_its_note_and_stops_no_other(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One refused object fills no round: with one object a round, the others still leave."""
    monkeypatch.setattr(attachments.deleting, "DELETE_LIMIT", 1)
    keys = with_own_object(owner, application, bucket, 3)
    bucket.refuse_deletion(keys[0])
    refused = run(database)
    assert (refused.objects, refused.complete) == (2, False)
    assert notes(owner) == [keys[0]]
    assert {key for key, _ in bucket.versions()} == {keys[0]}
    bucket.allow_all()
    allowed = run(database)
    assert (allowed.objects, allowed.complete) == (1, True)
    assert bucket.versions() == set()


def test_objects_that_did_not_fit_into_the_time_leave_with_the_next_run(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attachments.deleting, "DELETE_LIMIT", 1)
    with_own_object(owner, application, bucket, 3)
    # Messages take two looks, what is redacted, tokens, keys, windows and the suppression list one.
    first = run(database, has_time=rounds(8))
    assert (first.messages, first.objects, first.complete) == (3, 1, False)
    assert len(notes(owner)) == 2
    second = run(database)
    assert (second.objects, second.complete) == (2, True)


def test_a_storage_that_is_away_loses_nothing(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    storage_away: Callable[..., None],
) -> None:
    keys = with_own_object(owner, application, bucket)
    storage_away(away=True)
    with pytest.raises(UnavailableError):
        run(database)
    assert notes(owner) == keys
    storage_away(away=False)
    assert run(database).objects == 1
    assert bucket.versions() == set()


def test_a_storage_that_refuses_everything_loses_nothing(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    environment: Callable[..., None],
) -> None:
    keys = with_own_object(owner, application, bucket)
    environment(ATTACHMENTS_BUCKET="no-such-bucket")
    with pytest.raises(UnavailableError):
        run(database)
    assert notes(owner) == keys


def test_a_run_leaves_the_rows_to_another_that_holds_the_lock(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished(owner, application)
    with owner.transaction():
        owner.execute("SELECT pg_advisory_xact_lock(%s)", [duties.LOCK_KEY])
        meanwhile = run(database)
        assert (meanwhile.messages, meanwhile.complete) == (0, False)
    assert run(database).messages == 1


def test_two_runs_at_once_remove_each_message_and_object_once(
    owner: Connection, application: Connection, application_conninfo: str, bucket: Bucket
) -> None:
    with_own_object(owner, application, bucket, 12)
    start = threading.Barrier(2)

    def one(_: int) -> Retained:
        own = Database(lambda *, refresh: application_conninfo)
        start.wait()
        try:
            return run(own, chunk=1)
        finally:
            own.discard()

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(one, range(2)))
    assert sum(result.messages for result in results) == 12
    assert sum(result.objects for result in results) == 12
    assert ids(owner) == set()
    assert notes(owner) == []
    assert bucket.versions() == set()


def test_a_message_that_somebody_holds_locked_is_left_for_the_next_run(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    one, _ = finished(owner, application, 2)
    with owner.transaction():
        owner.execute("SELECT FROM postlease.email_messages WHERE id = %s FOR UPDATE", [one])
        assert run(database).messages == 1
    assert ids(owner) == {one}


def test_spent_keys_and_ended_windows_leave_and_the_others_stay(
    owner: Connection, database: Database, bucket: Bucket
) -> None:
    owner.execute(
        "INSERT INTO postlease.idempotency_keys"
        " (key_digest, request_digest, created_at, expires_at)"
        " SELECT sha256(n::text::bytea), sha256('r'), now() - interval '2 days',"
        "        now() + n * interval '1 minute' FROM generate_series(-3, 2) AS n"
    )
    owner.execute(
        "INSERT INTO postlease.rate_limits"
        " (limit_digest, window_started_at, window_ends_at, used)"
        " SELECT sha256(n::text::bytea), now() - interval '2 days',"
        "        now() + n * interval '1 minute', 1 FROM generate_series(-4, 3) AS n"
    )
    # Each table holds one row that ends exactly at its insertion, and so ended before the run.
    assert run(database, chunk=2) == Retained(
        messages=0, objects=0, keys=4, windows=5, complete=True
    )
    left = owner.execute(
        "SELECT (SELECT count(*) FROM postlease.idempotency_keys WHERE expires_at > now()) AS keys,"
        " (SELECT count(*) FROM postlease.rate_limits WHERE window_ends_at > now()) AS windows"
    ).fetchone()
    assert left == {"keys": 2, "windows": 3}


def test_suppressions_that_ended_and_bounces_that_no_longer_count_leave(
    owner: Connection, database: Database, bucket: Bucket
) -> None:
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason, expires_at)"
        " SELECT sha256(n::text::bytea), 'bounce', now() + n * interval '1 minute'"
        " FROM generate_series(-2, 2) AS n"
    )
    owner.execute(
        "INSERT INTO postlease.bounces (address_digest, event_digest, happened_at)"
        " SELECT sha256('a'), sha256(n::text::bytea),"
        "        now() - interval '30 days' + n * interval '1 minute'"
        " FROM generate_series(-3, 2) AS n"
    )
    assert run(database, chunk=2).list_entries == 7
    left = owner.execute(
        "SELECT (SELECT count(*) FROM postlease.suppressions WHERE expires_at > now()) AS ends,"
        " (SELECT count(*) FROM postlease.bounces) AS bounces"
    ).fetchone()
    assert left == {"ends": 2, "bounces": 2}


def test_users_tokens_and_lasting_suppressions_are_no_business_of_retention(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    message_id, _ = arrange.auth_message(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    arrange.age(owner, message_id, OLD, "created_at", "available_at", "sent_at", "finished_at")
    owner.execute(
        "INSERT INTO postlease.suppressions (address_digest, reason) VALUES (sha256('a'), 'bounce')"
    )
    assert run(database).messages == 1
    left = owner.execute(
        "SELECT (SELECT count(*) FROM postlease.users) AS users,"
        " (SELECT count(*) FROM postlease.verification_tokens) AS tokens,"
        " (SELECT count(*) FROM postlease.suppressions) AS suppressions"
    ).fetchone()
    assert left == {"users": 1, "tokens": 1, "suppressions": 1}


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    milliseconds: int = 300_000
    function_name: str = "postlease-retention"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:retention"
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def handler(bucket: Bucket) -> Iterator[Callable[..., dict[str, Any]]]:
    """The function as a new environment would load it."""
    sys.modules.pop("functions.retention.app", None)
    yield importlib.import_module("functions.retention.app").handler
    databases.application("retention").discard()
    del sys.modules["functions.retention.app"]


EVENT = json.loads((ROOT / "events" / "retention-schedule.json").read_text("utf-8"))


def test_the_schedule_removes_what_is_older_than_the_setting_says(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_own_object(owner, application, bucket, 2)
    [young] = finished(owner, application, ago=YOUNG)
    assert handler(EVENT, Invocation()) == {
        "messages": 2,
        "objects": 2,
        "keys": 0,
        "windows": 0,
        "complete": True,
        "list_entries": 0,
        "redacted": 0,
        "tokens": 0,
        "orphans": 0,
        "archived": 0,
        "archive_files": 0,
        "old_pending": 0,
    }
    assert ids(owner) == {young}
    emitted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [metrics] = [line for line in emitted if "_aws" in line]
    assert (metrics["PurgedMessages"], metrics["PurgedObjects"]) == ([2.0], [2.0])


def test_an_invocation_whose_time_is_nearly_up_begins_nothing(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
) -> None:
    finished(owner, application)
    result = handler(EVENT, Invocation(milliseconds=15_000))
    assert (result["messages"], result["complete"]) == (0, False)
    assert len(ids(owner)) == 1


def test_metrics_are_written_when_nothing_was_to_do(
    owner: Connection,
    handler: Callable[..., dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert handler(EVENT, Invocation())["complete"]
    emitted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [metrics] = [line for line in emitted if "_aws" in line]
    assert (metrics["PurgedMessages"], metrics["PurgedObjects"]) == ([0.0], [0.0])


def test_no_line_of_a_run_holds_an_address_or_a_key(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RET-05."""
    keys = with_own_object(owner, application, bucket, 2)
    bucket.refuse_deletion(keys[0])
    assert not handler(EVENT, Invocation())["complete"]
    lines = [str(record.__dict__) for record in caplog.records if record.name == "postlease"]
    assert [line for line in lines if "objects refused" in line]
    written = "".join(lines) + capsys.readouterr().out
    assert "@" not in written
    assert "uploads" not in written
