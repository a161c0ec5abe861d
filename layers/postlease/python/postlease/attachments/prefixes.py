"""Which keys of the bucket a producer may name. Pure; the schema holds the same rule for SQL."""

from __future__ import annotations

import hashlib
import re

SHARED = "attachments/shared/"
"""What every producer may attach; nobody uploads there through the API."""

LONGEST_KEY = 1024
"""Bytes of UTF-8 (S3)."""

_UNKEPT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def tag(producer: str) -> str:
    """The part of a key that is the producer's own: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(producer.encode()).hexdigest()[:16]


def uploads(producer: str) -> str:
    """Where the producer's uploads lie: each belongs to one message, and is deleted with it."""
    return f"attachments/uploads/{tag(producer)}/"


def kept(producer: str) -> str:
    """Where what the producer keeps lies: any number of its messages may attach it."""
    return f"attachments/kept/{tag(producer)}/"


def may_name(producer: str, key: str) -> bool:
    """Whether key is one that producer may attach, and one that can be asked for as it stands."""
    prefixes = (uploads(producer), kept(producer), SHARED)
    return key.startswith(prefixes) and key not in prefixes and is_plain(key)


def is_plain(key: str) -> bool:
    """Whether key reaches the storage as it is written.

    HTTP clients resolve the parts `.` and `..` of a path: the key that is asked for would be
    another one, perhaps somebody else's.
    """
    return (
        not _UNKEPT.search(key)
        and len(key.encode()) <= LONGEST_KEY
        and not {".", ".."} & set(key.split("/"))
    )
