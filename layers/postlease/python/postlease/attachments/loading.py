"""The bytes of attachments as they were pinned, at send."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import time
from typing import TYPE_CHECKING

from postlease.attachments.prefixes import is_plain
from postlease.attachments.storage import AbsentError, SilentError, storage, translated
from postlease.config import settings
from postlease.errors import AttachmentError
from postlease.model import Attachment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from botocore.response import StreamingBody
    from types_boto3_s3.type_defs import GetObjectRequestTypeDef

    from postlease.model import AttachmentReference

_PIECE = 256 * 1024


def load(
    references: Sequence[AttachmentReference], *, until: float = math.inf
) -> tuple[Attachment, ...]:
    """The pinned objects' bytes, in order.

    AttachmentError: `attachment_missing` if an object is gone, `attachment_changed` if another
    one lies in its place. UnavailableError: the storage does not answer; SilentError, which is one,
    if it keeps us waiting, or if until, a monotonic second, went by: each of its answers may be in
    time, and all together too late.
    """
    return tuple(_load(reference, until) for reference in references)


def _load(reference: AttachmentReference, until: float) -> Attachment:
    if not is_plain(reference.storage_ref):
        raise AttachmentError("attachment_missing")
    pinned: GetObjectRequestTypeDef = {
        "Bucket": settings().attachments_bucket,
        "Key": reference.storage_ref,
    }
    if reference.version_id is not None:
        pinned["VersionId"] = reference.version_id
    try:
        with translated(names_version=reference.version_id is not None):
            found = storage().get_object(**pinned)
            with contextlib.closing(found["Body"]) as body:
                # A swapped object may be of any size: what is longer than the pinned one is not
                # read.
                content = _read(body, reference.size + 1, until)
    except AbsentError:
        raise AttachmentError("attachment_missing") from None
    if len(content) != reference.size or hashlib.sha256(content).digest() != reference.sha256:
        raise AttachmentError("attachment_changed")
    return Attachment(reference.filename, reference.content_type, content, reference.content_id)


def _read(body: StreamingBody, most: int, until: float) -> bytes:
    read = io.BytesIO()
    while left := most - read.tell():
        if time.monotonic() > until:
            raise SilentError("the attachment storage is too slow")
        piece = body.read(min(left, _PIECE))
        if not piece:
            break
        read.write(piece)
    return read.getvalue()
