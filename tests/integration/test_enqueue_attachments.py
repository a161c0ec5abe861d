"""Attachments by reference: which objects a producer may name, and that an upload has one owner."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from postlease.database import connect
from tests import arrange
from tests.integration.test_enqueue import (
    ask,
    producer,
    producer_connections,
    producer_logins,
    wait_until_blocked,
)
from tests.integration.test_enqueue_batches import ask_many, message

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

__all__ = ["producer", "producer_connections", "producer_logins"]  # fixtures

TEN_MEGABYTES = 10_000_000


def tag(connection: Connection) -> str:
    """The folder of a producer's own objects, as it learns it."""
    row = connection.execute("SELECT postlease.attachments_tag() AS tag").fetchone()
    assert row
    return str(row["tag"])


def attachment(storage_ref: str, **members: Any) -> dict[str, Any]:
    """A usual one but for members."""
    return {
        "storage_ref": storage_ref,
        "filename": "invoice.pdf",
        "content_type": "application/pdf",
        "version_id": "3sL4kqtJlcpXroDTDmJ-rmSpXd3dIbrHY",
        "size": 1234,
        "sha256": "0f" * 32,
    } | members


def upload(connection: Connection, name: str = "invoice", **members: Any) -> dict[str, Any]:
    """One of the producer's own uploads."""
    return attachment(f"attachments/uploads/{tag(connection)}/{name}", **members)


def shared(number: int, **members: Any) -> list[dict[str, Any]]:
    """Number objects that everybody may name."""
    return [attachment(f"attachments/shared/{place}") | members for place in range(number)]


def stored(owner: Connection, message_id: UUID) -> list[dict[str, Any]]:
    """The attachments of a message, in order."""
    return owner.execute(
        "SELECT * FROM postlease.email_attachments WHERE message_id = %s ORDER BY position",
        [message_id],
    ).fetchall()


def refused(connection: Connection, attachments: Any, constraint: str) -> None:
    """Assert that it is refused by constraint, alone and in a batch, and not repeated."""
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        ask(connection, attachments=Jsonb(attachments))
    with pytest.raises(psycopg.errors.IntegrityError) as again:
        ask_many(connection, message(), message(attachments=attachments))
    assert (again.value.diag.message_primary or "").startswith("message 1: ")
    for told in (caught.value.diag, again.value.diag):
        assert told.constraint_name == constraint
        assert told.message_detail is None
        assert "canary" not in f"{told.message_primary} {told.context}".lower()


def test_the_tag_is_the_producer_s_own(producer_connections: list[Connection]) -> None:
    for connection in producer_connections:
        name = connection.info.user.encode()
        assert tag(connection) == hashlib.sha256(name).hexdigest()[:16]
    assert tag(producer_connections[0]) != tag(producer_connections[1])


def test_what_was_said_of_an_attachment_stands_in_its_row(
    owner: Connection, producer: Connection, application: Connection
) -> None:
    own = f"attachments/kept/{tag(producer)}/logo \u00e9+%.png"
    message_id = ask(
        producer,
        attachments=Jsonb(
            [
                upload(producer, size=1000),
                attachment(own, size=234, content_type="image/png", content_id="logo.1"),
                attachment("attachments/shared/terms.pdf", version_id=None, sha256="AB" * 32),
            ]
        ),
    )
    rows = stored(owner, message_id)
    assert [(row["position"], row["owned"], row["content_id"]) for row in rows] == [
        (0, True, None),
        (1, False, "logo.1"),
        (2, False, None),
    ]
    assert (rows[1]["storage_ref"], rows[1]["content_type"]) == (own, "image/png")
    assert (rows[2]["version_id"], rows[2]["sha256"]) == (None, bytes.fromhex("ab" * 32))
    assert arrange.row(owner, message_id)["attachment_bytes"] == 1000 + 234 + 1234
    [claimed] = arrange.claim(application)
    assert [one.content_id for one in claimed.attachments] == [None, "logo.1", None]
    assert [one.size for one in claimed.attachments] == [1000, 234, 1234]


def test_each_message_of_a_batch_has_its_own_attachments(
    owner: Connection, producer: Connection
) -> None:
    ids = ask_many(
        producer,
        message(attachments=[upload(producer, "a")]),
        message(),
        message(attachments=[upload(producer, "b"), *shared(1)]),
    )
    assert [len(stored(owner, one)) for one in ids] == [1, 0, 2]
    assert stored(owner, ids[2])[0]["storage_ref"].endswith("/b")


@pytest.mark.parametrize(
    "storage_ref",
    [
        "attachments/uploads/{other}/canary",
        "attachments/kept/{other}/canary",
        "attachments/uploads/canary",
        "attachments/uploads/{own}",
        "attachments/uploads/{own}/",
        "attachments/uploads/{own}canary/x",
        "attachments/kept/{own}/",
        "attachments/shared/",
        "attachments/shared",
        "attachments/canary",
        "attachments/Shared/canary",
        "attachments//shared/canary",
        "/attachments/shared/canary",
        "archive/canary",
        "x/attachments/shared/canary",
        "attachments/./shared/canary/",
        "",
    ],
)
def test_an_object_of_somebody_else_is_refused(
    owner: Connection, producer_connections: list[Connection], storage_ref: str
) -> None:
    shop, club = producer_connections
    named = storage_ref.format(own=tag(shop), other=tag(club))
    constraint = (
        "email_attachments_key_shape" if "/./" in named else "email_attachments_producer_prefix"
    )
    refused(shop, [attachment(named)], constraint)
    assert arrange.statuses(owner) == {}


@pytest.mark.parametrize(
    "rest",
    ["../{other}/canary", "x/../../{other}/canary", "..", "./canary", "a/.", "a\nb", "a\x7f"],
)
def test_a_key_that_reaches_another_object_is_refused(
    producer_connections: list[Connection], rest: str
) -> None:
    """Over HTTP the parts . and .. of a path are resolved."""
    shop, club = producer_connections
    named = f"attachments/uploads/{tag(shop)}/{rest.format(other=tag(club))}"
    refused(shop, [attachment(named)], "email_attachments_key_shape")


def test_a_key_is_taken_as_it_is_written(owner: Connection, producer: Connection) -> None:
    """ATT-04: spaces, plus signs, percent signs and both normal forms are different keys."""
    names = ["a b", "a+b", "a%20b", "\u00e9", "e\u0301", "dir//x", "...", ".hidden", "a..b"]
    given = [upload(producer, name) for name in names]
    rows = stored(owner, ask(producer, attachments=Jsonb(given)))
    assert [row["storage_ref"] for row in rows] == [one["storage_ref"] for one in given]


def test_an_upload_belongs_to_one_message(owner: Connection, producer: Connection) -> None:
    one = upload(producer, "canary")
    message_id = ask(producer, attachments=Jsonb([one]))
    refused(producer, [one], "email_attachments_one_owner")
    refused(
        producer, [upload(producer, "b"), one | {"version_id": "2"}], "email_attachments_one_owner"
    )
    assert arrange.statuses(owner) == {"pending": 1}
    assert len(stored(owner, message_id)) == 1


def test_an_upload_stands_once_in_a_message_and_in_one_of_a_batch(
    owner: Connection, producer: Connection
) -> None:
    one = upload(producer)
    refused(producer, [one, one], "email_attachments_one_owner")
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        ask_many(producer, *(message(attachments=[one]) for _ in range(3)))
    assert (caught.value.diag.message_primary or "").startswith("message 1: ")
    assert arrange.statuses(owner) == {}


def test_what_is_kept_or_shared_may_go_with_any_number_of_messages(
    owner: Connection, producer: Connection
) -> None:
    kept = attachment(f"attachments/kept/{tag(producer)}/terms")
    for _ in range(2):
        ask(producer, attachments=Jsonb([kept, kept, *shared(1)]))
    assert arrange.statuses(owner) == {"pending": 2}


def test_a_repeated_key_attaches_nothing_again(owner: Connection, producer: Connection) -> None:
    given = {"idempotency_key": "1", "attachments": Jsonb([upload(producer)])}
    first = ask(producer, **given)
    assert ask(producer, **given) == first
    assert ask_many(producer, message(**given), message(**given)) == [first, first]
    assert len(stored(owner, first)) == 1


def test_the_same_key_with_another_attachment_is_other_content(producer: Connection) -> None:
    ask(producer, idempotency_key="1", attachments=Jsonb([upload(producer)]))
    for other in ([], [upload(producer, size=1)], [upload(producer, "b")]):
        with pytest.raises(psycopg.errors.UniqueViolation) as caught:
            ask(producer, idempotency_key="1", attachments=Jsonb(other))
        assert caught.value.diag.constraint_name == "email_messages_idempotency"


def test_of_two_sessions_that_name_one_upload_the_second_is_refused(
    owner: Connection, producer_logins: list[str]
) -> None:
    with connect(producer_logins[0]) as first, connect(producer_logins[0]) as second:
        told: list[str | None] = []

        def race() -> None:
            try:
                ask(second, attachments=Jsonb([upload(second)]))
            except psycopg.errors.UniqueViolation as error:
                told.append(error.diag.constraint_name)

        racer = threading.Thread(target=race)
        with first.transaction():
            ask(first, attachments=Jsonb([upload(first)]))
            racer.start()
            wait_until_blocked(owner, second.info.backend_pid)
        racer.join()
    assert told == ["email_attachments_one_owner"]
    assert arrange.statuses(owner) == {"pending": 1}


def test_a_batch_holds_no_upload_while_it_waits_for_one_before_it(
    owner: Connection, producer_logins: list[str]
) -> None:
    """Else two batches that name the same uploads in two orders would wait for each other."""
    with (
        connect(producer_logins[0]) as first,
        connect(producer_logins[0]) as batch,
        connect(producer_logins[0]) as another,
    ):
        found: list[UUID] = []
        several = [message(attachments=[upload(batch, name)]) for name in ("c", "b")]
        racer = threading.Thread(target=lambda: found.extend(ask_many(batch, *several)))
        another.execute("SET lock_timeout = '1ms'")
        with first.transaction(force_rollback=True):
            ask(first, attachments=Jsonb([upload(first, "b")]))
            racer.start()
            wait_until_blocked(owner, batch.info.backend_pid)
            with another.transaction(force_rollback=True):
                ask(another, attachments=Jsonb([upload(another, "c")]))
        racer.join()
    assert len(found) == 2


MEMBER = "email_attachments_member"
REFUSED_MEMBERS: list[tuple[dict[str, Any], str]] = [
    *(
        ({name: None}, MEMBER)
        for name in ("storage_ref", "filename", "content_type", "size", "sha256")
    ),
    *(({name: 1}, MEMBER) for name in ("storage_ref", "filename", "content_type", "sha256")),
    *(({name: 1}, MEMBER) for name in ("version_id", "content_id")),
    ({"size": "1"}, MEMBER),
    ({"owned": False}, MEMBER),
    ({"canary@example.net": 1}, MEMBER),
    ({"version_id": ""}, "email_attachments_version_shape"),
    ({"version_id": "a b"}, "email_attachments_version_shape"),
    ({"version_id": "v" * 1025}, "email_attachments_version_shape"),
    ({"filename": ""}, "email_attachments_filename"),
    ({"filename": "f" * 256}, "email_attachments_filename"),
    ({"filename": "canary\r\nX-Evil: 1.pdf"}, "email_attachments_filename"),
    ({"filename": "canary\u2028.pdf"}, "email_attachments_filename"),
    ({"filename": "canary\x85.pdf"}, "email_attachments_filename"),
    ({"content_type": ""}, "email_attachments_content_type"),
    ({"content_type": "pdf"}, "email_attachments_content_type"),
    ({"content_type": "text/plain; charset=utf-8"}, "email_attachments_content_type"),
    ({"content_type": "text/plain\r\nX-Evil: canary"}, "email_attachments_content_type"),
    ({"size": -1}, "email_attachments_size"),
    ({"size": 1.5}, "email_attachments_size"),
    ({"size": 1e300}, "email_attachments_total_size"),
    ({"sha256": "0f" * 31}, "email_attachments_sha256_length"),
    ({"sha256": "0g" * 32}, "email_attachments_sha256_length"),
    ({"sha256": "0f" * 32 + "\n"}, "email_attachments_sha256_length"),
    ({"content_id": ""}, "email_attachments_content_id"),
    ({"content_id": "-a"}, "email_attachments_content_id"),
    ({"content_id": "canary@example.net"}, "email_attachments_content_id"),
    ({"content_id": "c" * 101}, "email_attachments_content_id"),
    ({"storage_ref": "attachments/shared/" + "\u00e4" * 503}, "email_attachments_key_shape"),
]


@pytest.mark.parametrize(("members", "constraint"), REFUSED_MEMBERS)
def test_what_is_refused_of_an_attachment_is_named_and_not_repeated(
    owner: Connection, producer: Connection, members: dict[str, Any], constraint: str
) -> None:
    refused(producer, [upload(producer), *shared(1, **members)], constraint)
    assert arrange.statuses(owner) == {}


@pytest.mark.parametrize(
    ("attachments", "told"),
    [
        (["canary"], "an attachment is an object"),
        (shared(1, filename=None), "filename of an attachment is a text, and has to be given"),
        (shared(1, size="1"), "size of an attachment is a number, and has to be given"),
        (shared(1, content_id=1), "content_id of an attachment is a text"),
        (shared(1, canary=1), "a member of an attachment is unknown: there are storage_ref, "),
    ],
)
def test_a_member_of_an_attachment_is_named_if_there_is_one_of_that_name(
    producer: Connection, attachments: list[Any], told: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        ask(producer, attachments=Jsonb(attachments))
    assert (caught.value.diag.message_primary or "").startswith(told)


@pytest.mark.parametrize("name", ["storage_ref", "filename", "content_type", "size", "sha256"])
def test_what_must_be_said_of_an_attachment_is_said(producer: Connection, name: str) -> None:
    one = upload(producer)
    del one[name]
    refused(producer, [one], MEMBER)


def test_an_upload_is_pinned_by_its_version(producer: Connection) -> None:
    refused(producer, [upload(producer, version_id=None)], "email_attachments_owned_is_pinned")


@pytest.mark.parametrize("wrong", [1, "canary", None, []], ids=str)
def test_an_attachment_is_an_object(producer: Connection, wrong: Any) -> None:
    refused(producer, [wrong], MEMBER)


@pytest.mark.parametrize("wrong", [{"a": 1}, "canary", 1], ids=str)
def test_attachments_are_an_array(producer: Connection, wrong: Any) -> None:
    refused(producer, wrong, "email_attachments_array")


def test_a_message_has_at_most_twenty_attachments(producer: Connection) -> None:
    assert ask(producer, attachments=Jsonb(shared(20)))
    refused(producer, shared(21), "email_attachments_count")


def test_the_attachments_of_a_message_fit_into_one_call_to_the_provider(
    producer: Connection,
) -> None:
    """ATT-07: 38 MB of base64."""
    assert ask(producer, attachments=Jsonb(shared(1, size=28_500_000)))
    assert ask(producer, attachments=Jsonb([*shared(2, size=TEN_MEGABYTES), *shared(1, size=0)]))
    refused(producer, shared(1, size=28_500_001), "email_attachments_total_size")
    refused(producer, shared(3, size=TEN_MEGABYTES), "email_attachments_total_size")


def test_a_content_id_names_one_image_of_its_message(producer: Connection) -> None:
    refused(producer, shared(2, content_id="logo"), "email_attachments_content_ids_distinct")
    assert ask(producer, attachments=Jsonb(shared(1, content_id="c" * 100)))
