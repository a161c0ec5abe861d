"""A presigned upload: the storage itself takes exactly the bytes that were announced."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from postlease.attachments.prefixes import uploads
from postlease.attachments.rules import check_total, checked_content_type, checked_filename
from postlease.attachments.storage import storage, translated
from postlease.config import settings
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

LIFETIME = timedelta(minutes=15)

_LONGEST_NAME = 100
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Upload:
    """Where to send the bytes, by method, with exactly these headers, before expires_at.

    Whoever holds the url may upload: it is not printed.
    """

    storage_ref: str
    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_at: datetime


def upload(
    producer: str, *, filename: str, content_type: str | None, size: int, sha256: str
) -> Upload:
    """A place of producer's own for one file of size bytes with that SHA-256 (hexadecimal).

    No call is made: the URL is signed here. Length, type and checksum are part of what is signed,
    so the storage refuses any other bytes. InvalidInputError with the pointers `/filename`,
    `/content_type`, `/size`, `/sha256`.
    """
    checked_filename(filename, pointer="/filename")
    kind = checked_content_type(content_type, filename, pointer="/content_type")
    if size < 0:
        raise InvalidInputError("/size", "must not be negative")
    check_total([size], pointer="/size")
    if not _SHA256.fullmatch(sha256):
        raise InvalidInputError("/sha256", "must be 64 hexadecimal digits in lower case")
    checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
    key = f"{uploads(producer)}{uuid4()}/{_safe(filename)}"
    with translated():
        url = storage().generate_presigned_url(
            "put_object",
            Params={
                "Bucket": settings().attachments_bucket,
                "Key": key,
                "ContentType": kind,
                "ContentLength": size,
                "ChecksumSHA256": checksum,
            },
            ExpiresIn=int(LIFETIME.total_seconds()),
        )
    return Upload(
        storage_ref=key,
        method="PUT",
        url=url,
        headers={
            "Content-Length": str(size),
            "Content-Type": kind,
            "x-amz-checksum-sha256": checksum,
        },
        expires_at=_signed_at(url) + LIFETIME,
    )


def _safe(filename: str) -> str:
    """A name for the key alone: ASCII without what a path or a URL gives a meaning to."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", filename)[-_LONGEST_NAME:].lstrip(".")
    return name or "file"


def _signed_at(url: str) -> datetime:
    [moment] = parse_qs(urlsplit(url).query)["X-Amz-Date"]
    return datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
