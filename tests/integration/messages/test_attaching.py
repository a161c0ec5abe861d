"""Attachments over HTTP: uploaded by a signed URL, pinned with their message, one's own alone."""

from __future__ import annotations

import base64
import hashlib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from postlease import attachments, database, messages
from postlease.errors import RefusedInputError, UnavailableError
from tests.integration.attachments.test_pinning import Head
from tests.integration.messages.conftest import RECEIPT, batch, number, pointers, sample, send
from tests.integration.retention.conftest import bucket

if TYPE_CHECKING:
    from postlease.database import Connection
    from tests.integration.messages.conftest import Api, Reply
    from tests.integration.retention.conftest import Bucket

__all__ = ["bucket"]  # a fixture

CONTENT = b"hello"


def ask(api: Api, **members: Any) -> Reply:
    """The answer to a request for a place."""
    body = {
        "filename": "note.txt",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    return api.call("POST", "/v1/attachments", body | members)


def uploaded(api: Api, content: bytes = CONTENT, **members: Any) -> str:
    """The storage_ref of an upload that was made."""
    place = ask(api, **members)
    assert place.status == 201, place.text
    wanted = place.json["upload"]
    request = urllib.request.Request(  # noqa: S310  loopback
        wanted["url"], content, wanted["headers"], method=wanted["method"]
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310  loopback
        return str(place.json["storage_ref"])


def note(ref: str, **members: Any) -> dict[str, Any]:
    """An attachment of a message."""
    return {"storage_ref": ref, "filename": "note.txt"} | members


def stored(owner: Connection) -> list[dict[str, Any]]:
    """The attachments that messages have."""
    return owner.execute(
        "SELECT storage_ref, filename, content_type, content_id, size, sha256, version_id, owned"
        " FROM postlease.email_attachments ORDER BY message_id, position"
    ).fetchall()


def test_an_upload_is_pinned_with_its_message(api: Api, bucket: Bucket, owner: Connection) -> None:
    ref = uploaded(api)
    wanted = note(ref, filename="Beleg ü.txt", content_id="logo")
    assert send(api, attachments=[wanted]).status == 202
    [row] = stored(owner)
    assert (row["storage_ref"], row["filename"]) == (ref, "Beleg ü.txt")
    assert (row["content_type"], row["content_id"], row["size"]) == ("text/plain", "logo", 5)
    assert (row["sha256"], row["owned"]) == (hashlib.sha256(CONTENT).digest(), True)
    assert (ref, row["version_id"]) in bucket.versions()


def test_another_caller_s_upload_is_refused_in_the_words_of_one_that_is_not_there(
    api: Api, bucket: Bucket, owner: Connection
) -> None:
    ref = uploaded(api.by("bank"))
    tag = attachments.tag(api.principal)
    replies = [
        send(api, attachments=[note(ref)]),
        send(api, attachments=[note(f"attachments/uploads/{tag}/nothing")]),
        send(api, attachments=[note(f"attachments/uploads/{tag}/../{ref.split('/', 2)[2]}")]),
        send(api, attachments=[note("secrets/key")]),
        send(api, attachments=[note(ref.upper())]),
    ]
    assert {(reply.status, reply.problem) for reply in replies} == {(422, "request-refused")}
    assert {reply.text for reply in replies} == {replies[0].text}
    assert pointers(replies[0]) == ["#/attachments/0/storage_ref"]
    assert "nothing was uploaded there, or it is not yours" in replies[0].text
    assert number(owner) == 0


def test_an_upload_belongs_to_one_message(api: Api, bucket: Bucket, owner: Connection) -> None:
    ref = uploaded(api)
    reply = batch(api, {"attachments": [note(ref)]}, {"attachments": [note(ref)]})
    assert (reply.status, reply.problem) == (422, "request-refused")
    assert pointers(reply) == ["#/messages/1/attachments"]
    assert number(owner) == 0
    assert send(api, attachments=[note(ref)]).status == 202
    reply = send(api, attachments=[note(ref)])
    assert pointers(reply) == ["#/attachments"]
    assert number(owner) == 1


def test_two_requests_at_once_for_one_upload_are_one_message(
    api: Api, bucket: Bucket, owner: Connection, application_conninfo: str
) -> None:
    """What only the database can tell is a refusal that names the attachments, and no fault."""
    body = RECEIPT | {"attachments": [note(uploaded(api))]}

    def ask_too(_: int) -> str:
        kept = database.Database(lambda *, refresh: application_conninfo)
        try:
            messages.send(kept, body, producer=api.principal, idempotency_key=None)
        except RefusedInputError as error:
            return error.pointer
        finally:
            kept.discard()
        return "taken"

    with ThreadPoolExecutor(4) as threads:
        told = sorted(threads.map(ask_too, range(4)))
    assert told == ["/attachments"] * 3 + ["taken"]
    assert number(owner) == len(stored(owner)) == 1


def test_a_message_repeated_under_its_key_keeps_its_upload(
    api: Api, bucket: Bucket, owner: Connection
) -> None:
    ref = uploaded(api)
    first, second = (send(api, attachments=[note(ref)], idempotency_key="r-1") for _ in range(2))
    assert (second.status, second.json) == (202, first.json)
    assert len(stored(owner)) == 1


def test_what_everybody_may_attach_can_be_attached_often(
    api: Api, bucket: Bucket, owner: Connection
) -> None:
    bucket.put("attachments/shared/terms.pdf")
    wanted = note("attachments/shared/terms.pdf", filename="terms.pdf")
    assert batch(api, {"attachments": [wanted]}, {"attachments": [wanted]}).status == 202
    assert [row["content_type"] for row in stored(owner)] == ["application/pdf"] * 2


def test_what_many_messages_of_a_request_attach_is_looked_at_once(
    api: Api, bucket: Bucket, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a batch with one large file in all messages takes longer than the gateway waits."""
    key = "attachments/shared/terms.pdf"
    older = bucket.put(key, b"older")
    bucket.put(key, CONTENT)
    head = Head(bucket.s3, ChecksumSHA256="")
    monkeypatch.setattr("postlease.attachments.pinning.storage", lambda: head)
    both = [note(key), note(key, filename="terms.txt"), note(key, version_id=older)]
    assert batch(api, *({"attachments": both} for _ in range(3))).status == 202
    assert (head.asked, head.read) == (2, 2)
    assert [(row["filename"], bytes(row["sha256"])) for row in stored(owner)] == [
        ("note.txt", hashlib.sha256(CONTENT).digest()),
        ("terms.txt", hashlib.sha256(CONTENT).digest()),
        ("note.txt", hashlib.sha256(b"older").digest()),
    ] * 3


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"filename": "run.exe"}, "#/attachments/0/filename"),
        ({"filename": "run.EXE ."}, "#/attachments/0/filename"),
        ({"version_id": "no-such-version"}, "#/attachments/0/storage_ref"),
    ],
)
def test_an_attachment_that_no_mail_may_carry_is_refused(
    api: Api, bucket: Bucket, owner: Connection, members: dict[str, Any], pointer: str
) -> None:
    reply = send(api, attachments=[note(uploaded(api), **members)])
    assert (reply.status, reply.problem) == (422, "request-refused")
    assert pointers(reply) == [pointer]
    assert number(owner) == 0


def test_two_images_of_one_content_id_are_refused(
    api: Api, bucket: Bucket, owner: Connection
) -> None:
    wanted = [note(uploaded(api), content_id="logo") for _ in range(2)]
    assert pointers(send(api, attachments=wanted)) == ["#/attachments/1/content_id"]
    assert number(owner) == 0


def test_without_the_storage_nothing_is_taken_and_the_caller_is_told_to_come_again(
    api: Api, bucket: Bucket, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("the attachment storage does not answer")

    monkeypatch.setattr("postlease.attachments.pin", away)
    reply = send(api, key="k-1", attachments=[note("attachments/shared/a")])
    assert (reply.status, reply.problem) == (503, "unavailable")
    assert int(reply.headers["retry-after"]) > 0
    assert number(owner) == 0


def test_attachments_are_pinned_while_no_transaction_is_open(
    api: Api, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(*_: object) -> list[Any]:
        found = owner.execute(
            "SELECT state FROM pg_stat_activity WHERE usename = 'postlease_application'"
            " AND datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        seen.append(found.fetchall())
        return []

    monkeypatch.setattr("postlease.attachments.pin", look)
    assert send(api, key="k-1").status == 202
    assert seen == [[]]


@pytest.mark.parametrize(
    ("members", "status", "slug", "pointer"),
    [
        ({"filename": "run.exe"}, 422, "request-refused", "#/filename"),
        ({"size": 50_000_000}, 422, "request-refused", "#/size"),
        ({"size": -1}, 422, "invalid-field", "#/size"),
        ({"size": "5"}, 422, "invalid-field", "#/size"),
        ({"size": None}, 422, "invalid-field", "#/size"),
        ({"sha256": "ab"}, 422, "invalid-field", "#/sha256"),
        ({"sha256": "A" * 64}, 422, "invalid-field", "#/sha256"),
        ({"filename": "a\r\nb"}, 422, "invalid-field", "#/filename"),
        ({"filename": ""}, 422, "invalid-field", "#/filename"),
        ({"content_type": "text"}, 422, "invalid-field", "#/content_type"),
        ({"content_type": "text/plain\r\nx: y"}, 422, "invalid-field", "#/content_type"),
        ({"producer": ""}, 422, "invalid-field", "#/producer"),
        ({"version_id": "1"}, 400, "invalid-request", "#/version_id"),
    ],
)
def test_a_place_that_could_not_be_used_is_refused(
    api: Api, members: dict[str, Any], status: int, slug: str, pointer: str
) -> None:
    reply = ask(api, **members)
    assert (reply.status, reply.problem) == (status, slug)
    assert pointers(reply) == [pointer]


def test_a_place_lies_under_the_caller_s_prefix_or_the_named_producer_s(api: Api) -> None:
    own, other = ask(api).json, ask(api, producer="shop").json
    assert own["storage_ref"].startswith(f"attachments/uploads/{attachments.tag(api.principal)}/")
    assert other["storage_ref"].startswith(f"attachments/uploads/{attachments.tag('shop')}/")
    checksum = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    assert own["upload"]["headers"]["x-amz-checksum-sha256"] == checksum
    assert own["upload"]["method"] == "PUT"


def test_the_sample_is_served(api: Api) -> None:
    assert api.event(sample("messages-upload")).status == 201
