"""What a producer names becomes what it was at that moment: version, size and SHA-256."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from postlease.attachments.prefixes import may_name
from postlease.attachments.rules import check_total, checked_content_type, checked_filename
from postlease.attachments.storage import AbsentError, storage, translated
from postlease.config import settings
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from types_boto3_s3.type_defs import HeadObjectOutputTypeDef, HeadObjectRequestTypeDef

_PIECE = 256 * 1024
_CALLS = 8
"""Objects looked at at the same time: twenty one after the other would keep a caller waiting."""

_VERSION = re.compile("[!-~]{1,1024}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """An attachment as a producer asks for it. pointer is its place in the request.

    version_id: which one, or None for what lies there now.
    """

    pointer: str
    storage_ref: str
    filename: str
    content_type: str | None = None
    content_id: str | None = None
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class Pinned:
    """An attachment that stays what it is: size in bytes, sha256 of 32 bytes."""

    storage_ref: str
    filename: str
    content_type: str
    content_id: str | None
    version_id: str
    size: int
    sha256: bytes

    def as_member(self) -> dict[str, str | int | None]:
        """Its form in the attachments of `postlease.enqueue_email`."""
        return {
            "storage_ref": self.storage_ref,
            "filename": self.filename,
            "content_type": self.content_type,
            "content_id": self.content_id,
            "version_id": self.version_id,
            "size": self.size,
            "sha256": self.sha256.hex(),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in the storage: size in bytes, sha256 of 32 bytes."""

    version_id: str
    size: int
    sha256: bytes


Seen: TypeAlias = dict[tuple[str, str | None], Found]
"""Objects by key and by the version that was asked for."""


def pin(producer: str, wanted: Sequence[Wanted], seen: Seen | None = None) -> list[Pinned]:
    """What one message's attachments are now, in their order.

    The checksum that the storage keeps is taken if it is the whole object's SHA-256; otherwise the
    object is read, in pieces. What is in seen is not looked at again, and what is found is added:
    a request whose hundred messages attach one file reads it once. InvalidInputError with the
    attachment's pointer and the member at fault: a name or type that no mail can carry; an object
    that is not there or not this producer's, in the same words; with the pointer of all
    attachments: more than one mail carries. UnavailableError: the storage does not answer.
    """
    for one in wanted:
        checked_filename(one.filename, pointer=f"{one.pointer}/filename")
        checked_content_type(one.content_type, one.filename, pointer=f"{one.pointer}/content_type")
        if not may_name(producer, one.storage_ref):
            raise _no_such(one)
    if not wanted:
        return []
    seen = {} if seen is None else seen
    new = list({_place(one): one for one in wanted if _place(one) not in seen}.values())
    with ThreadPoolExecutor(min(_CALLS, len(wanted)), "pin") as threads:
        heads = list(threads.map(_head, new))
        sizes = {place: found.size for place, found in seen.items()} | {
            _place(one): head["ContentLength"] for one, head in zip(new, heads, strict=True)
        }
        for one in wanted:
            check_total([sizes[_place(one)]], pointer=f"{one.pointer}/storage_ref")
        check_total(
            (sizes[_place(one)] for one in wanted), pointer=wanted[0].pointer.rpartition("/")[0]
        )
        seen.update(zip(map(_place, new), threads.map(_found, new, heads), strict=True))
    return [_pinned(one, seen[_place(one)]) for one in wanted]


def _place(one: Wanted) -> tuple[str, str | None]:
    return one.storage_ref, one.version_id


def _head(one: Wanted) -> HeadObjectOutputTypeDef:
    named: HeadObjectRequestTypeDef = {
        "Bucket": settings().attachments_bucket,
        "Key": one.storage_ref,
        "ChecksumMode": "ENABLED",
    }
    if one.version_id is not None:
        if not _VERSION.fullmatch(one.version_id):
            raise _no_such(one)
        named["VersionId"] = one.version_id
    try:
        with translated(names_version=one.version_id is not None):
            return storage().head_object(**named)
    except AbsentError:
        raise _no_such(one) from None


def _found(one: Wanted, head: HeadObjectOutputTypeDef) -> Found:
    # What a bucket keeps without versions is called so by the storage itself.
    version = head.get("VersionId", "null")
    return Found(
        version, head["ContentLength"], _whole_checksum(head) or _read_checksum(one, version)
    )


def _pinned(one: Wanted, found: Found) -> Pinned:
    return Pinned(
        storage_ref=one.storage_ref,
        filename=one.filename,
        content_type=checked_content_type(
            one.content_type, one.filename, pointer=f"{one.pointer}/content_type"
        ),
        content_id=one.content_id,
        version_id=found.version_id,
        size=found.size,
        sha256=found.sha256,
    )


def _whole_checksum(head: HeadObjectOutputTypeDef) -> bytes | None:
    """The SHA-256 that the storage made of all bytes; of parts it keeps another, `…-N`."""
    kept = head.get("ChecksumSHA256", "")
    if "-" in kept or "-" in head.get("ETag", ""):
        return None
    digest = base64.b64decode(kept)
    return digest if len(digest) == hashlib.sha256().digest_size else None


def _read_checksum(one: Wanted, version: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with translated(names_version=True):
            found = storage().get_object(
                Bucket=settings().attachments_bucket, Key=one.storage_ref, VersionId=version
            )
            with contextlib.closing(found["Body"]) as body:
                for piece in body.iter_chunks(_PIECE):
                    digest.update(piece)
    except AbsentError:
        raise _no_such(one) from None
    return digest.digest()


def _no_such(one: Wanted) -> InvalidInputError:
    """The same for what is missing and what is somebody else's: a refusal tells nothing of it."""
    return InvalidInputError(
        f"{one.pointer}/storage_ref", "nothing was uploaded there, or it is not yours"
    )
