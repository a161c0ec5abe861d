"""What an attachment may be called, what it may be, and how large all of a message's may be."""

from __future__ import annotations

import mimetypes
import re
from typing import TYPE_CHECKING

from postlease import mime
from postlease.config import settings
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_FILENAME = 255

LARGEST_TOTAL = 28_500_000
"""Bytes of a message's attachments that the schema takes: 38 MB as base64."""

_ROOM = 2 * 1024 * 1024
"""What a mail needs beside its attachments' base64: line ends (a 38th), headers, bodies."""

_MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
)
_UNSENDABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# The standard library's own table: what a machine has installed must not change a mail.
_TYPES = mimetypes.MimeTypes(filenames=())


def checked_filename(filename: str, *, pointer: str) -> str:
    """filename; InvalidInputError if no mail can carry it."""
    if not filename or len(filename) > LONGEST_FILENAME:
        raise InvalidInputError(pointer, f"must be 1 to {LONGEST_FILENAME} characters")
    if _UNSENDABLE.search(filename):
        raise InvalidInputError(pointer, "holds a control character or a line separator")
    if mime.is_forbidden_filename(filename):
        raise InvalidInputError(pointer, "mail providers refuse files with this extension")
    return filename


def checked_content_type(content_type: str | None, filename: str, *, pointer: str) -> str:
    """content_type, or what filename's ending says; InvalidInputError unless `type/subtype`."""
    if content_type is None:
        guessed, encoding = _TYPES.guess_type(filename)
        return guessed if guessed and not encoding else "application/octet-stream"
    if not _MEDIA_TYPE.fullmatch(content_type):
        raise InvalidInputError(pointer, "must be a media type such as application/pdf")
    return content_type


def largest_total() -> int:
    """Bytes of one message's attachments: what the schema takes, or less if the provider does."""
    return min(LARGEST_TOTAL, (settings().largest_mail - _ROOM) // 4 * 3)


def check_total(sizes: Iterable[int], *, pointer: str) -> None:
    """InvalidInputError if attachments of these sizes do not fit into one mail."""
    if sum(sizes) > largest_total():
        megabytes = largest_total() / 1_000_000
        raise InvalidInputError(pointer, f"too large: one mail carries {megabytes:.1f} MB")
