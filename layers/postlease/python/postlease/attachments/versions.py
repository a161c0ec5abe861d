"""Objects of the bucket by key and version: listed, written, read and deleted for good.

For what the deployment keeps there by itself. Calls are made one by one and repeat nothing:
UnavailableError when the storage does not answer, or refuses.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postlease.attachments.storage import AbsentError, storage, translated
from postlease.config import settings
from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from types_boto3_s3.type_defs import ListObjectVersionsRequestTypeDef

DELETE_LIMIT = 1000
"""What one DeleteObjects call takes."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object. is_latest: the one that a read without a version answers."""

    key: str
    version_id: str
    modified_at: datetime
    is_latest: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Versions in the order of their keys, of one key the newest first.

    behind: the key to go on behind, so that no version is passed over; None: nothing is left.
    """

    versions: tuple[Version, ...]
    behind: str | None


def listed(prefix: str, *, after: str = "", most: int = 1000) -> Page:
    """Up to most versions under prefix, of keys behind after; no deletion marks.

    A page of marks alone holds nothing, and is not the last one for that.
    """
    asked: ListObjectVersionsRequestTypeDef = {
        "Bucket": settings().attachments_bucket,
        "Prefix": prefix,
        "MaxKeys": most,
    }
    if after:
        asked["KeyMarker"] = after
    with _present():
        answer = storage().list_object_versions(**asked)
    found = answer.get("Versions", [])
    behind = None
    if answer.get("IsTruncated", False):
        # The last key's versions may go on in the next page: that begins with the key once more,
        # unless it is the only one of this page.
        last = answer["NextKeyMarker"]
        keys = {one["Key"] for one in (*found, *answer.get("DeleteMarkers", []))}
        behind = max((key for key in keys if key < last), default=last)
    return Page(
        tuple(
            Version(one["Key"], one["VersionId"], one["LastModified"], one["IsLatest"])
            for one in found
        ),
        behind,
    )


def put(key: str, content: bytes, content_type: str) -> str:
    """Write content, which the storage checks by its SHA-256; the version that it has there.

    A bucket that keeps no versions calls its only one `null`.
    """
    checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
    with _present():
        answer = storage().put_object(
            Bucket=settings().attachments_bucket,
            Key=key,
            Body=content,
            ContentType=content_type,
            ChecksumSHA256=checksum,
        )
    return answer.get("VersionId", "null")


def get(version: Version) -> bytes | None:
    """The bytes of a version; None if it is gone."""
    try:
        with translated(names_version=True):
            found = storage().get_object(
                Bucket=settings().attachments_bucket, Key=version.key, VersionId=version.version_id
            )
            with contextlib.closing(found["Body"]) as body:
                return body.read()
    except AbsentError:
        return None


def delete(versions: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Delete versions by key and version, so that no mark stays; those that were refused."""
    refused: set[tuple[str, str]] = set()
    for start in range(0, len(versions), DELETE_LIMIT):
        part = versions[start : start + DELETE_LIMIT]
        with _present():
            answer = storage().delete_objects(
                Bucket=settings().attachments_bucket,
                Delete={
                    "Objects": [{"Key": key, "VersionId": version} for key, version in part],
                    "Quiet": True,
                },
            )
        # Some storages leave the version out of a refusal: then it stands for all of the key's.
        said = {(one.get("Key"), one.get("VersionId")) for one in answer.get("Errors", [])}
        refused |= {one for one in part if {one, (one[0], None)} & said}
    return refused


@contextlib.contextmanager
def _present() -> Iterator[None]:
    """A call for which nothing can be absent but the bucket itself."""
    try:
        with translated():
            yield
    except AbsentError:
        raise UnavailableError("the attachment storage refused") from None
