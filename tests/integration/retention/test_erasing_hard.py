"""An erasure that says it is complete has left nothing: races, refusals, marks, look-alikes."""

from __future__ import annotations

import gzip
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from postlease import attachments, outbox, retention
from postlease.attachments import orphans
from postlease.errors import UnavailableError
from postlease.retention import duties, files
from tests import arrange
from tests.integration.retention.conftest import AGE, Bucket, always, finished
from tests.integration.retention.test_archiving import archive, archived_ids, lapse
from tests.integration.retention.test_erasing import (
    ADA,
    archived,
    erase,
    held,
    names_ada,
    rounds,
    stored,
)
from tests.integration.test_enqueue import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection, Database


def test_mail_that_is_sent_while_the_erasure_waits_for_it_is_redacted(
    owner: Connection,
    application: Connection,
    open_application: Callable[[], Connection],
    database: Database,
    bucket: Bucket,
) -> None:
    """The erasure's view is older than the row that it locks."""
    arrange.enqueue(owner, to=[ADA])
    [message] = arrange.dispatch(application)
    found: list[retention.Erasure] = []
    pid = database.connection().info.backend_pid
    with application.transaction():
        outbox.record(application, [arrange.sent(message.claim)])
        eraser = threading.Thread(target=lambda: found.append(erase(database)))
        eraser.start()
        wait_until_blocked(owner, pid)
    eraser.join()
    assert (found[0].redacted, found[0].sending, found[0].complete) == (1, 0, True)
    assert arrange.row(owner, message.claim.message_id)["status"] == "sent"
    assert ADA not in held(owner)


def test_mail_on_its_way_in_an_earlier_part_keeps_the_last_part_from_being_complete(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention.erasing, "PAGE", 1)
    archived(owner, application, database)
    arrange.enqueue(owner, to=[ADA])
    arrange.dispatch(application)
    arrange.enqueue(owner, to=["b@example.com"])
    first = erase(database, has_time=rounds(1))
    assert (first.sending, first.complete) == (1, False)
    second = erase(database, after=first.after, has_time=rounds(3))
    assert (second.sending, second.complete, second.files_read) == (0, False, 1)
    third = erase(database, after=second.after)
    assert (third.sending, third.complete, third.after) == (0, False, None)


def test_a_version_that_the_storage_keeps_is_told_and_the_erasure_is_not_complete(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As object lock does: everything but the deletion is allowed."""
    archived(owner, application, database)
    bucket.refuse_deletion(f"{files.PREFIX}*")
    first = erase(database, has_time=rounds(2))
    assert (first.files_rewritten, first.refused, first.versions) == (1, 2, 0)
    rest = erase(database, after=first.after)
    assert (rest.refused, rest.after, rest.complete) == (2, None, False)
    assert not erase(database).complete
    bucket.allow_all()
    assert erase(database).complete
    assert not names_ada(bucket)


def test_files_that_the_storage_keeps_are_not_counted_as_gone(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finished(owner, application)
    name_of = files.name_of
    monkeypatch.setattr(files, "name_of", lambda chunk: name_of(chunk).replace("/20", "/19", 1))
    archive(database)
    bucket.refuse_deletion(f"{files.PREFIX}*")
    retained = archive(database, "both")
    assert (retained.archive_files, retained.complete) == (0, False)
    bucket.allow_all()
    assert archive(database, "both").archive_files == 1


def test_versions_behind_somebody_s_deletion_by_hand_are_erased_too(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    archived(owner, application, database, 2)
    for key in {key for key, _ in bucket.versions()}:
        bucket.s3.delete_object(Bucket=bucket.name, Key=key)
    assert names_ada(bucket)
    assert erase(database).complete
    assert not names_ada(bucket)
    assert stored(bucket).count("reader") == 1


def test_a_page_of_deletion_marks_is_not_the_end(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 counts marks among what it lists, and goes on behind them; the emulator does neither."""
    archived(owner, application, database, 2)
    upload = ("attachments/uploads/1/a.pdf", bucket.put("attachments/uploads/1/a.pdf"))
    storage = attachments.versions.storage()

    class Marked:
        def list_object_versions(self, **asked: Any) -> Any:
            behind = asked.pop("KeyMarker", None)
            if behind or asked["Prefix"] not in {files.PREFIX, orphans.PREFIX}:
                assert behind in {None, f"{asked['Prefix']}0/1"}
                return storage.list_object_versions(**asked)
            marks = [{"Key": f"{asked['Prefix']}0/{place}"} for place in range(3)]
            last = marks[-1]["Key"]
            return {"DeleteMarkers": marks, "IsTruncated": True, "NextKeyMarker": last}

        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

    monkeypatch.setattr(attachments.versions, "storage", Marked)
    assert erase(database).files_read == 1
    assert not names_ada(bucket)
    first = attachments.sweep_orphans(database.connection(), after="", age=AGE * 0)
    assert (first.found, first.position) == (0, "attachments/uploads/0/1")
    rest = attachments.sweep_orphans(database.connection(), after=first.position or "", age=AGE * 0)
    assert (rest.found, rest.position) == (1, None)
    assert upload not in bucket.versions()


def test_a_key_whose_versions_go_on_in_the_next_page_is_not_passed_over(
    owner: Connection, database: Database, bucket: Bucket
) -> None:
    first = bucket.put("attachments/uploads/t/a")
    several = {bucket.put("attachments/uploads/t/b") for _ in range(3)}
    page = attachments.versions.listed("attachments/uploads/", most=2)
    seen = {one.version_id for one in page.versions}
    assert first in seen
    assert page.behind is not None
    rest = attachments.versions.listed("attachments/uploads/", after=page.behind)
    assert seen | {one.version_id for one in rest.versions} == {first, *several}
    assert rest.behind is None


@pytest.mark.parametrize(
    "other",
    [
        "bada@example.com",
        "o'ada@example.com",
        "Ada <x.ada@example.com>",
        "ada@example.com.au",
        "ada@example.comet",
        "ada@example.com-x.example",
        "adaXexample.com@example.net",
    ],
)
def test_whoever_has_a_longer_address_keeps_their_mail(
    owner: Connection, application: Connection, database: Database, bucket: Bucket, other: str
) -> None:
    """Here and in the archive."""
    finished(owner, application)
    owner.execute("UPDATE postlease.email_messages SET reply_to = %s", [other])
    [waiting] = arrange.enqueue(owner, to=["b@example.com"], reply_to=other)
    rules = retention.Rules("archive")
    retention.run(database, age=AGE, has_time=always, rules=rules)
    assert erase(database).complete
    assert arrange.row(owner, waiting)["status"] == "pending"
    assert other.lower() in stored(bucket)


@pytest.mark.parametrize("spelled", ["Ada@Example.com", '"Ada" <ADA@example.com>', f"<{ADA}>"])
def test_a_reply_address_in_whatever_spelling_is_erased(
    owner: Connection, application: Connection, database: Database, bucket: Bucket, spelled: str
) -> None:
    ids = finished(owner, application, 2)
    owner.execute("UPDATE postlease.email_messages SET reply_to = %s", [spelled])
    rules = retention.Rules("archive")
    retention.run(database, age=AGE, has_time=always, chunk=1, rules=rules)
    assert archived_ids(bucket) == sorted(map(str, ids))
    assert erase(database).complete
    assert ADA not in stored(bucket)


def test_a_key_that_holds_the_address_as_a_url_does_loses_it(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    key = "invite/Ada%2Bone%40example.com"
    [done] = finished(owner, application)
    owner.execute(
        "UPDATE postlease.email_messages SET idempotency_key = %s, cancel_scope = %s,"
        " content_hash = '\\x00',"
        " to_addresses = ARRAY['ada+one@example.com']",
        [key + "/2", key],
    )
    [waiting] = arrange.enqueue(
        owner, to=["ada+one@example.com"], idempotency_key=key, cancel_scope=key
    )
    retention.run(database, age=AGE, has_time=always, rules=retention.Rules("archive"))
    assert erase(database, "ada+one@example.com").complete
    row = arrange.row(owner, waiting)
    assert (row["idempotency_key"], row["cancel_scope"]) == (f"erased:{waiting}", None)
    assert "ada%2bone" not in stored(bucket)
    assert f"erased:{done}" in stored(bucket)


def test_what_stands_beside_a_person_in_a_file_stays_to_the_last_digit(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    """JSON of the database has numbers that no float holds."""
    archived(owner, application, database, 2)
    [name] = files.names("")
    file = files.read(name)
    assert file
    number = '"number": 12345678901234567890.1234567890123456789, "much": 1e400'
    lines = [line.replace('"parameters": {', f'"parameters": {{{number}, ') for line in file.lines]
    lines = [line.replace(", }", "}") for line in lines]
    ids = [json.loads(line)["message"]["id"] for line in lines]
    files.write(name, ids, lines)
    assert erase(database).files_rewritten == 1
    after = files.read(name)
    assert after
    assert [line for line in after.lines if line in lines] == [
        line for line in lines if "reader" in line
    ]


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"{}\n", mtime=0), gzip.compress(b"\xff\n", mtime=0)],
    ids=["no archive", "no message", "no text"],
)
def test_a_file_that_is_none_of_ours_stops_no_erasure_and_is_told(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    caplog: pytest.LogCaptureFixture,
    content: bytes,
) -> None:
    """By its name, unless that may name somebody."""
    archived(owner, application, database, 2)
    strange = f"{files.PREFIX}0/strange{files.FILE}"
    bucket.put(strange, content)
    assert erase(database).unread == 1
    assert [getattr(one, "file", None) for one in caplog.records if one.msg == "unreadable"] == [
        strange.removesuffix(files.FILE)
    ]
    bucket.s3.delete_object(
        Bucket=bucket.name,
        Key=strange,
        VersionId=next(version for key, version in bucket.versions() if key == strange),
    )
    archived(owner, application, database, 2)
    bucket.put(f"{files.PREFIX}0/{ADA}{files.FILE}", content)
    erasure = erase(database)
    assert ADA not in str([vars(one) for one in caplog.records if one.name == "postlease"])
    assert (erasure.files_rewritten, erasure.unread, erasure.complete) == (1, 1, False)


def test_a_file_in_cold_storage_stops_no_erasure_and_is_told(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    archived(owner, application, database, 2)
    bucket.s3.put_object(
        Bucket=bucket.name,
        Key=f"{files.PREFIX}0/cold{files.FILE}",
        Body=gzip.compress(b""),
        StorageClass="GLACIER",
    )
    erasure = erase(database)
    assert (erasure.files_rewritten, erasure.unread, erasure.complete) == (1, 1, False)


def test_an_erasure_that_lost_its_lease_over_a_file_writes_and_deletes_nothing_more(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another may have erased somebody else there meanwhile."""
    archived(owner, application, database, 2)
    read = files.read

    def slowly(name: str) -> Any:
        monkeypatch.setattr(files, "read", read)
        found = read(name)
        lapse(owner)
        assert erase(database, "reader0@example.com").complete
        return found

    monkeypatch.setattr(files, "read", slowly)
    erasure = erase(database)
    assert (erasure.complete, erasure.after) == (False, "files:")
    assert "reader0" not in stored(bucket)
    assert erase(database, after=erasure.after).complete
    assert not names_ada(bucket)


def test_a_run_that_lost_the_archive_s_lease_takes_no_file_away_that_another_wrote(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stood still while another run did its chunk: then it reads that nothing is left."""
    ids = finished(owner, application, 3)
    read_chunk = outbox.read_chunk

    def slowly(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(outbox, "read_chunk", read_chunk)
        lapse(owner)
        assert archive(database).complete
        return read_chunk(*arguments, **named)

    monkeypatch.setattr(outbox, "read_chunk", slowly)
    assert (archive(database).messages, arrange.statuses(owner)) == (0, {})
    assert archived_ids(bucket) == sorted(map(str, ids))


def test_a_run_that_lost_the_archive_s_lease_lets_no_row_leave(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has the lease may be about to delete the file that the rows would leave for."""
    finished(owner, application, 3)
    write = files.write

    def slowly(*arguments: Any) -> files.Written:
        written = write(*arguments)
        lapse(owner)
        assert duties.Lease(database, "archive").take()
        return written

    monkeypatch.setattr(files, "write", slowly)
    retained = archive(database)
    assert (retained.messages, retained.complete) == (0, False)
    assert arrange.statuses(owner) == {"sent": 3}


def test_a_file_s_day_is_that_of_utc_wherever_the_session_is(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    """Two names of one chunk would be two files."""
    finished(owner, application)
    with application.transaction(force_rollback=True):
        names = set()
        for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"):
            application.execute("SELECT set_config('TimeZone', %s, true)", [zone])
            chunk = outbox.next_chunk(application, age=AGE, chunk=5)
            assert chunk
            names.add(files.name_of(chunk))
    assert len(names) == 1


def test_a_bucket_that_keeps_no_versions_is_served_too(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    environment: Callable[..., None],
) -> None:
    """Somebody's own, or one whose versioning was never turned on."""
    bucket.s3.create_bucket(Bucket=f"{bucket.name}-plain")
    environment(ATTACHMENTS_BUCKET=f"{bucket.name}-plain")
    plain = Bucket(bucket.s3, f"{bucket.name}-plain")
    archived(owner, application, database)
    assert len(archived_ids(plain)) == 4
    assert erase(database).files_rewritten == 2
    assert not names_ada(plain)
    assert len(archived_ids(plain)) == 4


def test_a_storage_that_is_away_in_the_middle_of_an_erasure_is_an_error_and_not_completeness(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    storage_away: Callable[..., None],
) -> None:
    archived(owner, application, database, 2)
    storage_away(away=True)
    with pytest.raises(UnavailableError):
        erase(database)
