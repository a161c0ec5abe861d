"""A person's request: what names an address loses it, in the table and in the archive."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from postlease import attachments, outbox, retention
from postlease import database as databases
from postlease.errors import InvalidInputError
from postlease.retention import files
from tests import arrange
from tests.integration.retention.conftest import AGE, Bucket, always, attach, finished
from tests.integration.retention.test_retention import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection, Database

ADA = "ada@example.com"


def erase(database: Database, address: str = ADA, **arguments: Any) -> retention.Erasure:
    return retention.erase(database, address, **{"has_time": always} | arguments)


def rounds(number: int) -> Callable[[], bool]:
    """Time for so many looks."""
    left = iter(range(number))
    return lambda: next(left, None) is not None


def held(owner: Connection) -> str:
    """All that the tables of messages hold, as text in lower case."""
    rows = [
        *owner.execute("SELECT * FROM postlease.email_messages"),
        *owner.execute("SELECT * FROM postlease.email_attachments"),
    ]
    return str(rows).lower()


def stored(bucket: Bucket) -> str:
    """All that every version of the archive holds, as text in lower case."""
    texts = []
    for key, version in bucket.versions():
        if key.startswith(files.PREFIX):
            found = bucket.s3.get_object(Bucket=bucket.name, Key=key, VersionId=version)
            content = found["Body"].read()
            texts.append(gzip.decompress(content) if key.endswith(files.FILE) else content)
    return b"\n".join(texts).decode().lower()


def names_ada(bucket: Bucket) -> bool:
    """Whether any version of the archive names her; digits of a digest may spell her too."""
    text = stored(bucket)
    return ADA in text or '"ada"' in text


def archived(
    owner: Connection, application: Connection, database: Database, number: int = 4
) -> None:
    """Messages in files of two, the second of each to Ada. Files go by id, which within a
    millisecond is not the order of making."""
    for place, message_id in enumerate(sorted(finished(owner, application, number))):
        if place % 2:
            owner.execute(
                "UPDATE postlease.email_messages SET to_addresses = ARRAY['Ada@Example.com'],"
                ' parameters = \'{"name": "Ada"}\' WHERE id = %s',
                [message_id],
            )
    rules = retention.Rules("archive")
    retention.run(database, age=AGE, has_time=always, chunk=2, rules=rules)


def test_pending_mail_is_cancelled_and_finished_mail_redacted_wherever_the_address_stands(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    done, [answered] = finished(owner, application, 3), finished(owner, application)
    owner.execute(
        "UPDATE postlease.email_messages SET to_addresses = ARRAY['Ada@Example.com'] WHERE id = %s",
        [done[0]],
    )
    owner.execute(
        "UPDATE postlease.email_messages SET bcc_addresses = ARRAY['ada@example.com'],"
        ' recipient_names = \'{"ada@example.com": "Ada"}\' WHERE id = %s',
        [done[1]],
    )
    owner.execute(
        "UPDATE postlease.email_messages SET reply_to = 'Ada <ada@example.com>' WHERE id = %s",
        [answered],
    )
    key = "attachments/uploads/ada.pdf"
    attach(owner, done[0], key, bucket.put(key))
    [waiting] = arrange.enqueue(owner, to=["b@example.com"], cc=[ADA], idempotency_key=f"to {ADA}")
    [other] = arrange.enqueue(owner, to=["ada@example.com.example"])
    erasure = erase(database)
    assert (erasure.cancelled, erasure.redacted, erasure.objects) == (1, 3, 1)
    assert (erasure.sending, erasure.user_id, erasure.complete) == (0, None, True)
    row = arrange.row(owner, waiting)
    assert (row["status"], row["failure_reason"]) == ("failed", "cancelled")
    assert arrange.row(owner, other)["status"] == "pending"
    owner.execute("DELETE FROM postlease.email_messages WHERE id = %s", [other])
    assert ADA not in held(owner)
    assert arrange.row(owner, done[2])["redacted_at"] is None
    retention.run(database, age=AGE * 100, has_time=always)
    assert bucket.versions() == set()


def test_mail_that_is_being_sent_is_left_alone_and_told(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    arrange.enqueue(owner, to=[ADA])
    [message] = arrange.dispatch(application)
    before = arrange.row(owner, message.claim.message_id)
    erasure = erase(database)
    assert (erasure.sending, erasure.redacted, erasure.complete) == (1, 0, False)
    assert arrange.row(owner, message.claim.message_id) == before
    outbox.record(application, [arrange.sent(message.claim)])
    assert erase(database).complete
    assert ADA not in held(owner)


def test_an_account_stays_and_is_told(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    user_id = arrange.user(owner, ADA)
    assert erase(database).user_id == str(user_id)
    assert erase(database, "b@example.com").user_id is None


def test_the_archive_is_written_anew_and_its_older_versions_are_deleted(
    owner: Connection, application: Connection, database: Database, bucket: Bucket
) -> None:
    archived(owner, application, database)
    assert stored(bucket).count('["ada@example.com"]') == 2
    ids = sorted(json.loads(line)["message"]["id"] for line in _lines(bucket))
    erasure = erase(database)
    assert (erasure.files_read, erasure.files_rewritten, erasure.archived) == (2, 2, 2)
    assert (erasure.versions, erasure.complete) == (4, True)
    assert not names_ada(bucket)
    assert stored(bucket).count("reader") == 2
    assert len(bucket.versions()) == 4
    assert sorted(json.loads(line)["message"]["id"] for line in _lines(bucket)) == ids
    assert erase(database).files_rewritten == 0


def _lines(bucket: Bucket) -> list[str]:
    return [line for line in stored(bucket).split("\n") if line.startswith('{"message"')]


@pytest.mark.parametrize("place", ["the manifest", "the older versions"])
def test_killed_while_it_rewrites_a_file_the_next_leaves_no_older_version(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    class KilledError(Exception):
        pass

    def die(*_: object, **__: object) -> Any:
        raise KilledError

    archived(owner, application, database, 2)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write_manifest" if place == "the manifest" else "clean", die)
        with pytest.raises(KilledError):
            erase(database)
    assert names_ada(bucket)
    owner.execute("UPDATE postlease.retention_duties SET lease_expires_at = now() - interval '1s'")
    assert erase(database).complete
    assert not names_ada(bucket)
    assert len(bucket.versions()) == 2
    [name] = files.names("")
    file = files.read(name)
    assert file
    [manifest] = attachments.versions.listed(name + files.MANIFEST).versions
    text = attachments.versions.get(manifest)
    assert text
    assert file.is_told_by(text)


def test_an_erasure_without_time_goes_on_where_it_ended(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archived(owner, application, database)
    for message_id in finished(owner, application, 4):
        owner.execute(
            "UPDATE postlease.email_messages SET to_addresses = ARRAY['ada@example.com']"
            " WHERE id = %s",
            [message_id],
        )
    monkeypatch.setattr(retention.erasing, "PAGE", 3)
    first = erase(database, has_time=rounds(1))
    assert (first.redacted, first.complete) == (3, False)
    # Two looks end the rows, one more reads a file.
    second = erase(database, has_time=rounds(3), after=first.after)
    assert (second.redacted, second.files_rewritten, second.complete) == (1, 1, False)
    third = erase(database, after=second.after)
    assert (third.redacted, third.files_rewritten, third.complete) == (0, 1, True)
    assert ADA not in held(owner)
    assert not names_ada(bucket)


@pytest.mark.parametrize("after", ["", "x", "rows:1", "rows:../", "lines:"])
def test_a_place_that_no_erasure_answered_is_refused(
    database: Database, bucket: Bucket, after: str
) -> None:
    if after:
        with pytest.raises(InvalidInputError):
            erase(database, after=after)
    else:
        assert erase(database, after=after).complete


@pytest.fixture
def handler(bucket: Bucket) -> Iterator[Callable[..., dict[str, Any]]]:
    """The function as a new environment would load it."""
    sys.modules.pop("functions.retention.app", None)
    yield importlib.import_module("functions.retention.app").handler
    databases.application("retention").discard()
    del sys.modules["functions.retention.app"]


def test_the_function_erases_and_neither_its_answer_nor_its_log_names_the_address(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """RET-05."""
    arrange.enqueue(owner, to=[ADA])
    answer = handler({"erase": " Ada@EXAMPLE.com "}, Invocation())
    assert (answer["cancelled"], answer["complete"]) == (1, True)
    assert "ada" not in (str(answer) + capsys.readouterr().out).lower()


@pytest.mark.parametrize(
    "event",
    [
        {"dry_run": False},
        {"dry_run": True, "erase": "ada@example.com"},
        {"dry_run": True, "days": 3},
        {"erase": None},
        {"erase": "nobody"},
        {"erase": ["ada@example.com"]},
        {"erase": "ada@example.com", "after": 3},
        {"erase": "ada@example.com", "dry": True},
    ],
)
def test_an_event_by_hand_that_means_nothing_runs_nothing(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
    event: dict[str, Any],
) -> None:
    finished(owner, application)
    with pytest.raises(InvalidInputError) as caught:
        handler(event, Invocation())
    assert "ada@" not in str(caught.value)
    assert arrange.statuses(owner) == {"sent": 1}


def test_a_dry_run_by_hand_answers_what_a_run_would_remove(
    owner: Connection,
    application: Connection,
    bucket: Bucket,
    handler: Callable[..., dict[str, Any]],
) -> None:
    finished(owner, application)
    answer = handler({"dry_run": True}, Invocation())
    assert (answer["dry_run"], answer["mode"], answer["messages"]) == (True, "delete", 1)
    assert arrange.statuses(owner) == {"sent": 1}
