"""Uploads that no message took leave the storage after a day; nothing that one took does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import attachments, retention
from postlease.attachments import orphans, versions
from tests.integration.retention.conftest import AGE, Bucket, always, attach, finished

if TYPE_CHECKING:
    import pytest

    from postlease.database import Connection, Database

NOW = timedelta(0)


def uploads(bucket: Bucket, number: int) -> list[tuple[str, str]]:
    keys = [f"attachments/uploads/tag/{place:02}/a.pdf" for place in range(number)]
    return [(key, bucket.put(key)) for key in keys]


def test_an_upload_that_nobody_took_in_a_day_leaves_by_version(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies over an adopted version was adopted by nobody."""
    [one, other] = uploads(bucket, 2)
    [message_id] = finished(owner, application, ago=timedelta(days=1))
    attach(owner, message_id, *other)
    over = (other[0], bucket.put(other[0], b"another"))
    assert attachments.sweep_orphans(database.connection(), after="").found == 0
    swept = attachments.sweep_orphans(database.connection(), after="", age=NOW)
    assert (swept.found, swept.position) == (2, None)
    assert bucket.versions() == {other}
    assert bucket.delete_markers() == []
    assert {one, over}.isdisjoint(bucket.versions())


def test_only_uploads_are_swept(database: Database, bucket: Bucket) -> None:
    kept = {(key, bucket.put(key)) for key in ("attachments/kept/t/a.pdf", "archive/2026/a.gz")}
    assert attachments.sweep_orphans(database.connection(), after="", age=NOW).found == 0
    assert bucket.versions() == kept


def test_a_run_goes_on_where_the_one_before_had_no_more_time(
    owner: Connection,
    application: Connection,
    database: Database,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two objects a page, every second of them a message's: five pages, three in the first run."""
    monkeypatch.setattr(
        orphans.sweep_orphans, "__kwdefaults__", {"age": NOW, "is_rehearsal": False}
    )
    listed = versions.listed
    monkeypatch.setattr(
        versions, "listed", lambda prefix, after: listed(prefix, after=after, most=2)
    )
    found = uploads(bucket, 8)
    messages = finished(owner, application, 4, ago=timedelta(days=1))
    taken = set(found[1::2])
    for message_id, (key, version) in zip(messages, found[1::2], strict=True):
        attach(owner, message_id, key, version)
    left = iter(range(6 + 1 + 3))
    first = retention.run(database, age=AGE, has_time=lambda: next(left, None) is not None)
    assert not first.complete
    assert 0 < first.orphans < 4
    second = retention.run(database, age=AGE, has_time=always)
    assert second.complete
    assert first.orphans + second.orphans == 4
    assert bucket.versions() == taken


def test_an_upload_that_the_storage_refuses_to_delete_stops_no_other(
    database: Database, bucket: Bucket
) -> None:
    found = uploads(bucket, 3)
    bucket.refuse_deletion(found[1][0])
    swept = attachments.sweep_orphans(database.connection(), after="", age=NOW)
    assert (swept.found, swept.refused) == (2, 1)
    assert bucket.versions() == {found[1]}
