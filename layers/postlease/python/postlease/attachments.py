"""Attachments in S3: loaded as they were pinned, and deleted when nobody refers to them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.config import settings
from postlease.database import translated_errors
from postlease.errors import AttachmentError, UnavailableError
from postlease.model import Attachment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import GetObjectRequestTypeDef, ObjectIdentifierTypeDef

    from postlease.database import Connection
    from postlease.model import AttachmentReference

DELETE_LIMIT = 1000
"""What one DeleteObjects call takes."""

_GONE = ("NoSuchKey", "NoSuchVersion", "404")

NOTED: LiteralString = """-- attachments.noted
SELECT d.id, d.storage_ref, d.version_id
FROM postlease.attachment_deletions AS d
WHERE d.id > %(after)s
ORDER BY d.id
LIMIT %(limit)s
"""

FORGET: LiteralString = """-- attachments.forget
DELETE FROM postlease.attachment_deletions AS d WHERE d.id = ANY (%(ids)s::bigint[])
"""


# Senders ask at the same time. A client may be shared between threads, but not made in two.
_making = threading.Lock()


def _storage() -> S3Client:
    with _making:
        return _s3()


@functools.cache
def _s3() -> S3Client:
    # boto3 costs 300 ms of import, and most mails have no attachment.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    times = settings().times
    return boto3.client(
        "s3",
        config=Config(
            connect_timeout=times.connect_timeout.total_seconds(),
            read_timeout=times.read_timeout.total_seconds(),
            retries={"total_max_attempts": 1},
        ),
    )


def load(references: Sequence[AttachmentReference]) -> tuple[Attachment, ...]:
    """The pinned objects' bytes, in order.

    AttachmentError: `attachment_missing` if an object is gone, `attachment_changed` if another
    one lies in its place. UnavailableError: the storage does not answer.
    """
    return tuple(_load(reference) for reference in references)


def _load(reference: AttachmentReference) -> Attachment:
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415

    pinned: GetObjectRequestTypeDef = {
        "Bucket": settings().attachments_bucket,
        "Key": reference.storage_ref,
    }
    if reference.version_id is not None:
        pinned["VersionId"] = reference.version_id
    try:
        found = _storage().get_object(**pinned)
        with contextlib.closing(found["Body"]) as body:
            # A swapped object may be of any size: what is longer than the pinned one is not read.
            content = body.read(reference.size + 1)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            raise AttachmentError("attachment_missing") from None
        raise UnavailableError("the attachment storage refused") from None
    except (BotoCoreError, HTTPClientError, OSError):
        raise UnavailableError("the attachment storage does not answer") from None
    if len(content) != reference.size or hashlib.sha256(content).digest() != reference.sha256:
        raise AttachmentError("attachment_changed")
    return Attachment(reference.filename, reference.content_type, content)


@dataclass(frozen=True, slots=True)
class Deleted:
    """One round over the notes.

    refused: objects that the storage would not delete; their notes stay. last: the last note looked
    at, to go on after; None when no note was left.
    """

    objects: int
    refused: int
    last: int | None


def delete_noted(connection: Connection, *, after: int = 0) -> Deleted:
    """Delete up to DELETE_LIMIT objects whose messages are gone, from the note behind after on.

    The objects go first, then the notes: a crash in between deletes the same objects again, which
    changes nothing. Deletes by key and version, so that no delete marker stays behind. Call it
    outside of a transaction. Raises UnavailableError when the storage does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415

    with translated_errors():
        rows = connection.execute(NOTED, {"after": after, "limit": DELETE_LIMIT}).fetchall()
    if not rows:
        return Deleted(objects=0, refused=0, last=None)
    named: list[ObjectIdentifierTypeDef] = [
        {"Key": row["storage_ref"], "VersionId": row["version_id"]} for row in rows
    ]
    try:
        answer = _storage().delete_objects(
            Bucket=settings().attachments_bucket, Delete={"Objects": named, "Quiet": True}
        )
    except ClientError:
        raise UnavailableError("the attachment storage refused") from None
    except (BotoCoreError, HTTPClientError, OSError):
        raise UnavailableError("the attachment storage does not answer") from None
    # Some storages leave the version out of a refusal: then it stands for all of the key's.
    refused = {(error.get("Key"), error.get("VersionId")) for error in answer.get("Errors", [])}
    ids = [
        row["id"]
        for row in rows
        if not {(row["storage_ref"], row["version_id"]), (row["storage_ref"], None)} & refused
    ]
    with translated_errors():
        forgotten = connection.execute(FORGET, {"ids": ids}).rowcount
    return Deleted(objects=forgotten, refused=len(rows) - len(ids), last=rows[-1]["id"])
