"""Old messages are in the archive before they leave, once each, and come back as they were."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import attachments, migrations, outbox, retention
from postlease.database import connect
from postlease.errors import UnavailableError
from postlease.retention import duties, files
from tests import arrange
from tests.conftest import ROOT, SQL
from tests.integration.retention.conftest import AGE, OLD, Bucket, always, attach, finished

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from postlease.config import RetentionMode
    from postlease.database import Connection, Database

HASHES = """
SELECT (SELECT md5(string_agg(m::text, '|' ORDER BY m.id)) FROM postlease.email_messages AS m)
           AS messages,
       (SELECT md5(string_agg(a::text, '|' ORDER BY a.message_id, a.position))
        FROM postlease.email_attachments AS a) AS attachments
"""


STILL_THERE = "SELECT pid FROM pg_stat_activity WHERE application_name = 'retiring'"


def archive(
    database: Database, mode: RetentionMode = "archive", **arguments: Any
) -> retention.Retained:
    rules = retention.Rules(mode, timedelta(days=3_650), archived_for=timedelta(days=30))
    return retention.run(
        database, **{"age": AGE, "has_time": always, "rules": rules, "chunk": 3} | arguments
    )


def read(bucket: Bucket, ending: str) -> dict[str, bytes]:
    """The newest versions of the archive's objects with that ending."""
    keys = sorted({key for key, _ in bucket.versions() if key.endswith(ending)})
    return {key: bucket.s3.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}


def lines(bucket: Bucket) -> list[str]:
    """Every line of every file."""
    return [
        line
        for packed in read(bucket, files.FILE).values()
        for line in gzip.decompress(packed).decode().split("\n")[:-1]
    ]


def archived_ids(bucket: Bucket) -> list[str]:
    return sorted(json.loads(line)["message"]["id"] for line in lines(bucket))


def is_consistent(bucket: Bucket) -> bool:
    """Each file has one version, and a manifest of one version that tells what it is."""
    packed, manifests = read(bucket, files.FILE), read(bucket, files.MANIFEST)
    versions = [key for key, _ in bucket.versions() if key.startswith(files.PREFIX)]
    told = {json.loads(text)["file"]: json.loads(text) for text in manifests.values()}
    return (
        len(versions) == len(set(versions)) == 2 * len(packed)
        and told.keys() == packed.keys()
        and all(
            manifest["sha256"] == hashlib.sha256(packed[key]).hexdigest()
            and manifest["rows"] == len(set(manifest["ids"])) == len(manifest["ids"])
            and manifest["ids"]
            == [
                json.loads(line)["message"]["id"]
                for line in gzip.decompress(packed[key]).decode().split("\n")[:-1]
            ]
            for key, manifest in told.items()
        )
    )


def everything(owner: Connection, application: Connection, bucket: Bucket) -> list[UUID]:
    """Seven old messages of several kinds: hostile text, names, tags, an attachment, a token."""
    ids = finished(owner, application, 5)
    key = "attachments/uploads/r\u00e9sum\u00e9.pdf"
    attach(owner, ids[1], key, bucket.put(key))
    owner.execute(
        'UPDATE postlease.email_messages SET tags = \'{"a": "b"}\','
        " cc_addresses = ARRAY['c@example.com'],"
        " recipient_names = '{\"c@example.com\": \"C\"}', reply_to = 'r@example.com',"
        " parameters = jsonb_build_object('text', %s::text, 'number', 1.10, 'none', null)"
        " WHERE id = %s",
        ["a\\b\n\r\t\x01\x02\"'\u0085\u2028, ;\U0001f600", ids[0]],
    )
    message_id, _ = arrange.auth_message(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    [cancelled] = arrange.enqueue(owner, idempotency_key="k")
    outbox.cancel(application, cancelled)
    for one in (message_id, cancelled):
        arrange.age(owner, one, OLD, "created_at", "available_at", "finished_at")
    return [*ids, message_id, cancelled]


def hashes(owner: Connection) -> Any:
    return owner.execute(HASHES).fetchone()


def restore(url: str, tmp_path: Path, found: list[str]) -> None:
    """Do what docs/retention.md says."""
    page = (ROOT / "docs" / "retention.md").read_text("utf-8")
    script = page.partition("## Restoring from the archive")[2].partition("```sql\n")[2]
    statements = script.partition("```")[0]
    [copied] = [line for line in statements.splitlines() if line.startswith("\\copy")]
    before, after = statements.split(copied)
    assert copied.count("'archive.jsonl'") == 1
    with connect(url) as owner:
        owner.execute(before)  # type: ignore[call-overload]
        copy = copied.removeprefix("\\").replace("'archive.jsonl'", "STDIN")
        with owner.cursor().copy(copy) as stream:  # type: ignore[call-overload]
            stream.write("".join(f"{line}\n" for line in found))
        owner.execute(after)  # type: ignore[call-overload]


def test_the_page_s_check_names_what_is_not_as_it_was_written(
    owner: Connection, application: Connection, database: Database, bucket: Bucket, tmp_path: Path
) -> None:
    finished(owner, application, 7)
    archive(database)
    found = read(bucket, files.FILE) | read(bucket, files.MANIFEST)
    for key, content in found.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(content)
    page = (ROOT / "docs" / "retention.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]

    def says() -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True, text=True
        )
        return sorted(ended.stdout.splitlines())

    assert says() == []
    changed, gone, alone = sorted(read(bucket, files.FILE))
    (tmp_path / changed).write_bytes(b"")
    (tmp_path / gone).unlink()
    (tmp_path / alone.replace(files.FILE, files.MANIFEST)).unlink()
    assert says() == [f"differs: {changed}", f"differs: {gone}", f"no manifest: {alone}"]


@pytest.fixture
def empty(empty_database: Callable[[], str]) -> str:
    """The owner's URL of a migrated, empty database."""
    url = empty_database()
    with connect(url) as owner:
        migrations.migrate(owner, SQL)
    return url


def lapse(owner: Connection) -> None:
    """Let the lease of a run that died be over."""
    owner.execute(
        "UPDATE postlease.retention_duties SET lease_expires_at = now() - interval '1 second'"
        " WHERE lease_owner IS NOT NULL"
    )


class KilledError(Exception):
    """Here the process ends."""


def die(*_: object, **__: object) -> Any:
    raise KilledError


@pytest.fixture
def killed(
    monkeypatch: pytest.MonkeyPatch, database: Database, owner: Connection
) -> Callable[[str], None]:
    """Runs until a place, and dies there."""
    places: dict[str, tuple[Any, str]] = {
        "before the file": (attachments.versions, "put"),
        "after the file": (files, "write_manifest"),
        "after the manifest": (outbox, "purge_chunk"),
        "before the objects": (attachments, "delete_noted"),
    }

    def run(place: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(*places[place], die)
            with pytest.raises(KilledError):
                archive(database)
        lapse(owner)

    return run


PLACES = ("before the file", "after the file", "after the manifest", "before the objects")


def test_old_messages_are_in_the_archive_and_no_longer_in_the_database(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    ids = everything(owner, application, bucket)
    [young] = finished(owner, application, ago=timedelta(days=89))
    retained = archive(database)
    assert (retained.messages, retained.archived, retained.complete) == (7, 7, True)
    assert archived_ids(bucket) == sorted(map(str, ids))
    assert len(read(bucket, files.FILE)) == 3
    assert is_consistent(bucket)
    assert [row["id"] for row in owner.execute("SELECT id FROM postlease.email_messages")] == [
        young
    ]
    assert retained.objects == 1


@pytest.mark.parametrize("second", PLACES)
@pytest.mark.parametrize("first", PLACES)
def test_killed_twice_nothing_is_lost_and_nothing_is_doubled(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    killed: Callable[[str], None],
    first: str,
    second: str,
) -> None:
    """RET-01."""
    ids = finished(owner, application, 5)
    key = "attachments/uploads/a.pdf"
    attach(owner, ids[4], key, bucket.put(key))
    killed(first)
    if first != "before the objects" or second == first:
        killed(second)
    assert archive(database).complete
    assert arrange.statuses(owner) == {}
    assert archived_ids(bucket) == sorted(map(str, ids))
    assert is_consistent(bucket)
    assert {key for key, _ in bucket.versions() if not key.startswith(files.PREFIX)} == set()


def test_what_is_restored_into_an_empty_database_is_what_left_after_two_kills(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    killed: Callable[[str], None],
    empty: str,
    tmp_path: Path,
) -> None:
    everything(owner, application, bucket)
    before = hashes(owner)
    killed("after the file")
    killed("after the manifest")
    assert archive(database).complete
    assert hashes(owner) == {"messages": None, "attachments": None}
    for _ in range(2):  # a second time changes nothing
        restore(empty, tmp_path, lines(bucket))
        with connect(empty) as restored:
            assert hashes(restored) == before


def test_redacted_and_erased_rows_come_back_as_they_were(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    empty: str,
    tmp_path: Path,
) -> None:
    everything(owner, application, bucket)
    assert outbox.redact(application, age=AGE, chunk=10) == 1
    assert retention.erase(database, "c@example.com", has_time=always).redacted == 1
    before = hashes(owner)
    assert archive(database).messages == 7
    restore(empty, tmp_path, lines(bucket))
    with connect(empty) as restored:
        assert hashes(restored) == before


@pytest.mark.parametrize("mode", ["delete", "archive"])
def test_a_process_that_is_killed_twice_leaves_nothing_behind(
    owner: Connection,
    application: Connection,
    application_conninfo: str,
    database: Database,
    bucket: Bucket,
    mode: RetentionMode,
) -> None:
    """RET-01: wherever in their chunks the two processes die."""
    ids = finished(owner, application, 12)
    for place, message_id in enumerate(ids):
        key = f"attachments/uploads/{place}.pdf"
        attach(owner, message_id, key, bucket.put(key))
    url = f"{application_conninfo} application_name=retiring"
    asked = json.dumps({"url": url, "mode": mode, "chunk": 2})
    for chunks in (4 + 2, 4 + 1):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.integration.retention.retiring", asked],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/layers/postlease/python"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stderr
            for _ in range(chunks):
                assert child.stderr.readline() == "chunk\n"
            child.kill()
        # What it had asked for last, the server may still be doing.
        while owner.execute(STILL_THERE).fetchone():
            pass
        lapse(owner)
    assert archive(database, mode).complete
    assert archived_ids(bucket) == (sorted(map(str, ids)) if mode == "archive" else [])
    assert is_consistent(bucket)
    assert arrange.statuses(owner) == {}
    assert {key for key, _ in bucket.versions() if not key.startswith(files.PREFIX)} == set()


def test_a_message_that_is_retried_while_its_file_is_written_stays_and_is_not_in_the_file(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator's retry, between the file and the rows: pending rows never leave."""
    ids = arrange.enqueue(owner, 2)
    for message_id in ids:
        outbox.cancel(application, message_id)
        arrange.age(owner, message_id, OLD, "created_at", "available_at", "finished_at")
    write = files.write
    retried: list[str | None] = []

    def meanwhile(*arguments: Any) -> files.Written:
        written = write(*arguments)
        if not retried:
            retried.append(outbox.retry(application, ids[0]))
        return written

    monkeypatch.setattr(files, "write", meanwhile)
    assert archive(database).messages == 1
    assert arrange.statuses(owner) == {"pending": 1}
    assert archived_ids(bucket) == [str(ids[1])]
    assert is_consistent(bucket)


def test_a_message_that_changes_while_its_file_is_written_is_kept_as_it_became(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An event of the provider may come as late."""
    [message_id] = finished(owner, application)
    write = files.write

    def meanwhile(*arguments: Any) -> files.Written:
        owner.execute("UPDATE postlease.email_messages SET provider_message_id = 'late'")
        monkeypatch.setattr(files, "write", write)
        return write(*arguments)

    monkeypatch.setattr(files, "write", meanwhile)
    assert archive(database).messages == 1
    [line] = lines(bucket)
    message = json.loads(line)["message"]
    assert (message["id"], message["provider_message_id"]) == (str(message_id), "late")
    assert is_consistent(bucket)


def test_a_chunk_whose_messages_were_all_retried_leaves_no_file_and_stops_no_other(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    killed: Callable[[str], None],
) -> None:
    [message_id] = arrange.enqueue(owner)
    outbox.cancel(application, message_id)
    arrange.age(owner, message_id, OLD, "created_at", "available_at", "finished_at")
    killed("after the manifest")
    assert bucket.versions()
    outbox.retry(application, message_id)
    arrange.age(owner, message_id, -timedelta(days=1), "available_at")
    later = finished(owner, application)
    assert archive(database).complete
    assert archived_ids(bucket) == list(map(str, later))
    assert is_consistent(bucket)
    assert arrange.statuses(owner) == {"pending": 1}


def test_a_run_leaves_the_archive_to_another_that_has_its_lease(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished(owner, application)
    other = duties.Lease(database, "archive")
    assert other.take()
    meanwhile = archive(database)
    assert (meanwhile.messages, meanwhile.complete) == (0, False)
    assert bucket.versions() == set()
    other.give_back()
    assert archive(database).messages == 1


def test_a_chunk_that_another_run_ended_is_not_purged_again(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    finished(owner, application)
    chunk = outbox.next_chunk(application, age=AGE, chunk=5)
    assert chunk
    messages = outbox.read_chunk(application, chunk, age=AGE)
    assert outbox.purge_chunk(application, chunk, messages) == 1
    assert outbox.purge_chunk(application, chunk, messages) == -1


def test_a_storage_that_is_away_keeps_every_row(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    storage_away: Callable[..., None],
) -> None:
    finished(owner, application, 2)
    owner.execute(
        "INSERT INTO postlease.rate_limits (limit_digest, window_started_at, window_ends_at, used)"
        " VALUES (sha256('x'), now() - interval '2h', now() - interval '1h', 1)"
    )
    storage_away(away=True)
    with pytest.raises(UnavailableError):
        archive(database)
    assert arrange.statuses(owner) == {"sent": 2}
    # What needs no storage is done all the same.
    assert owner.execute("SELECT FROM postlease.rate_limits").fetchone() is None


def test_files_leave_the_archive_when_their_time_is_over_and_only_where_both_is_asked_for(
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
    monkeypatch.undo()
    finished(owner, application)
    assert archive(database, "archive").archive_files == 0
    assert len(read(bucket, files.FILE)) == 2
    assert archive(database, "both").archive_files == 1
    [left] = read(bucket, files.FILE)
    assert left.startswith("archive/20")
    assert is_consistent(bucket)


def test_equal_rows_are_equal_bytes(
    owner: Connection, application: Connection, bucket: Bucket
) -> None:
    finished(owner, application, 2)
    chunk = outbox.next_chunk(application, age=AGE, chunk=5)
    assert chunk
    messages = outbox.read_chunk(application, chunk, age=AGE)
    ids, found = [str(one.id) for one in messages], [one.line for one in messages]
    first = files.write("archive/a", ids, found)
    again = files.write("archive/a", ids, found)
    assert first.file != again.file
    versions = [
        bucket.s3.get_object(Bucket=bucket.name, Key=key, VersionId=version)["Body"].read()
        for key, version in (first.file, again.file)
    ]
    assert versions[0] == versions[1]


def test_what_is_read_for_the_archive_prints_nothing(
    owner: Connection, application: Connection
) -> None:
    finished(owner, application)
    chunk = outbox.next_chunk(application, age=AGE, chunk=5)
    assert chunk
    [message] = outbox.read_chunk(application, chunk, age=AGE)
    assert "example.com" in message.line
    assert "example.com" not in repr(message)
