"""An attachment is what it was when the message was asked for, or it is an error."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from postlease import attachments
from postlease.errors import AttachmentError, UnavailableError
from postlease.model import Attachment, AttachmentReference
from tests.integration.retention.conftest import CONTENT, Bucket

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "attachments/uploads/r\u00e9sum\u00e9 a+b&c.pdf"


def reference(version: str | None, content: bytes = CONTENT) -> AttachmentReference:
    """A pinned object as a message refers to it."""
    return AttachmentReference(
        filename="r\u00e9sum\u00e9.pdf",
        content_type="application/pdf",
        storage_ref=KEY,
        version_id=version,
        size=len(content),
        sha256=hashlib.sha256(content).digest(),
    )


def test_the_pinned_version_is_loaded_although_a_newer_one_lies_on_top(bucket: Bucket) -> None:
    version = bucket.put(KEY)
    bucket.put(KEY, b"newer")
    assert attachments.load([reference(version)]) == (
        Attachment("r\u00e9sum\u00e9.pdf", "application/pdf", CONTENT),
    )


def test_several_are_loaded_in_their_order(bucket: Bucket) -> None:
    one = bucket.put(KEY, b"one")
    two = bucket.put(KEY, b"two")
    loaded = attachments.load([reference(two, b"two"), reference(one, b"one")])
    assert [attachment.content for attachment in loaded] == [b"two", b"one"]


def test_a_message_without_attachments_asks_nobody(
    bucket: Bucket, storage_away: Callable[..., None]
) -> None:
    storage_away(away=True)
    assert attachments.load([]) == ()


def test_an_unpinned_reference_loads_what_lies_there_now(bucket: Bucket) -> None:
    bucket.put(KEY)
    [loaded] = attachments.load([reference(None)])
    assert loaded.content == CONTENT


@pytest.mark.parametrize("pinned", [True, False])
def test_an_object_that_is_gone_is_missing(bucket: Bucket, *, pinned: bool) -> None:
    version = bucket.put(KEY)
    bucket.s3.delete_object(Bucket=bucket.name, Key=KEY, VersionId=version)
    with pytest.raises(AttachmentError) as caught:
        attachments.load([reference(version if pinned else None)])
    assert caught.value.code == "attachment_missing"


@pytest.mark.parametrize("other", [b"%PDF+", b"%PDF", b"%PDF--", b"", b"x" * 1_000_000], ids=len)
def test_another_object_in_its_place_has_changed(bucket: Bucket, other: bytes) -> None:
    bucket.put(KEY, other)
    with pytest.raises(AttachmentError) as caught:
        attachments.load([reference(None)])
    assert caught.value.code == "attachment_changed"


def test_a_storage_that_does_not_answer_is_unavailable_and_names_no_key(
    bucket: Bucket, storage_away: Callable[..., None]
) -> None:
    storage_away(away=True)
    with pytest.raises(UnavailableError) as caught:
        attachments.load([reference("v1")])
    assert "uploads" not in str(caught.value)


def test_a_storage_that_refuses_is_unavailable_not_missing(
    bucket: Bucket, environment: Callable[..., None]
) -> None:
    environment(ATTACHMENTS_BUCKET="no-such-bucket")
    with pytest.raises(UnavailableError):
        attachments.load([reference("v1")])


@pytest.mark.parametrize("code", ["400", "405", "InvalidArgument", "MethodNotAllowed"])
def test_what_the_storage_calls_no_version_is_missing_and_not_asked_for_again(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    class Refusing:
        def get_object(self, **_named: object) -> None:
            raise ClientError({"Error": {"Code": code}}, "GetObject")

    monkeypatch.setattr("postlease.attachments.loading.storage", Refusing)
    with pytest.raises(AttachmentError) as caught:
        attachments.load([reference("never-was")])
    assert caught.value.code == "attachment_missing"
    with pytest.raises(UnavailableError):
        attachments.load([reference(None)])


def test_a_key_that_a_client_would_rewrite_is_missing_whoever_owns_what_it_leads_to(
    bucket: Bucket,
) -> None:
    bucket.put("attachments/uploads/b/x")
    with pytest.raises(AttachmentError) as caught:
        attachments.load([replace(reference(None), storage_ref="attachments/uploads/a/../b/x")])
    assert caught.value.code == "attachment_missing"


def test_an_inline_image_keeps_its_content_id(bucket: Bucket) -> None:
    bucket.put(KEY)
    [loaded] = attachments.load([replace(reference(None), content_id="logo")])
    assert loaded.content_id == "logo"


def test_content_and_references_print_no_bytes() -> None:
    assert "%PDF" not in repr(Attachment("a.pdf", "application/pdf", CONTENT))
