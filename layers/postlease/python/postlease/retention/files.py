"""The archive's files: gzipped JSON Lines, and beside each a manifest of what it holds.

    archive/<day>/<first id>_<last id>_<chunk id>.jsonl.gz
    archive/<day>/<first id>_<last id>_<chunk id>.manifest.json

A line is `{"message": …, "attachments": […]}`, the rows by their columns. The manifest is written
after its file and names its distinct ids, SHA-256, bytes and version: a file without one that fits
was not ended.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING

from postlease import attachments
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postlease.attachments import Version
    from postlease.outbox import Chunk
    from postlease.retention.duties import Lease

PREFIX = "archive/"
FILE = ".jsonl.gz"
MANIFEST = ".manifest.json"


class UnreadableError(Exception):
    """What lies in the archive under a file's name is no file of it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file and its manifest, durable in these versions."""

    file: tuple[str, str]
    manifest: tuple[str, str]
    bytes: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Versions that are no more, and those that the storage refuses to delete."""

    deleted: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Archived:
    """A file that is there. Its bytes hold addresses and are not printed."""

    name: str
    file: Version
    packed: bytes = field(repr=False)

    @property
    def lines(self) -> list[str]:
        """One JSON text for each message. UnreadableError if that is none of ours."""
        try:
            return gzip.decompress(self.packed).decode().split("\n")[:-1]
        except (OSError, EOFError, zlib.error, UnicodeDecodeError):
            raise UnreadableError from None

    def is_told_by(self, manifest: bytes) -> bool:
        """Whether manifest is this file's."""
        try:
            told: object = json.loads(manifest)["sha256"]
        except (ValueError, KeyError, TypeError):  # somebody else's
            return False
        return told == hashlib.sha256(self.packed).hexdigest()


def name_of(chunk: Chunk) -> str:
    """Where a chunk's file lies, without the ending: the same however often it is written."""
    first, last = chunk.message_ids[0], chunk.message_ids[-1]
    # Whatever zone the session is in: two names would be two files.
    return f"{PREFIX}{chunk.created_at.astimezone(UTC):%Y-%m-%d}/{first}_{last}_{chunk.id}"


def told(name: str) -> str:
    """A file's name as logs may have it: somebody else's may hold an address."""
    return name if "@" not in name else f"{PREFIX}…"


def write(name: str, ids: Sequence[str], lines: Sequence[str]) -> Written:
    """Write a file of lines, then the manifest of its ids, which are distinct."""
    # Without the moment in its header: equal rows are equal bytes.
    packed = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    version = attachments.versions.put(name + FILE, packed, "application/gzip")
    return Written((name + FILE, version), write_manifest(name, ids, packed, version), len(packed))


def write_manifest(name: str, ids: Sequence[str], packed: bytes, version: str) -> tuple[str, str]:
    """The manifest of a file that is there."""
    distinct = sorted(set(ids))
    manifest = {
        "format": 1,
        "file": name + FILE,
        "version_id": version,
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "rows": len(distinct),
        "ids": distinct,
    }
    text = json.dumps(manifest, indent=1).encode()
    return name + MANIFEST, attachments.versions.put(name + MANIFEST, text, "application/json")


def clean(name: str, *keep: tuple[str, str], lease: Lease) -> Cleaned:
    """Delete every version of a file and its manifest but keep.

    LostError if lease, the archive's, was another run's before they were listed: they may be its.
    """
    found = attachments.versions.listed(name).versions
    others = [(one.key, one.version_id) for one in found]
    others = [one for one in others if one not in keep]
    if not others:
        return Cleaned()
    lease.hold()
    refused = len(attachments.versions.delete(others))
    if refused:
        logger.warning("versions refused", extra={"file": told(name), "versions": refused})
    return Cleaned(len(others) - refused, refused)


def names(after: str) -> Iterator[str]:
    """The files behind after, in order, without their endings."""
    seen, place = after, after
    while True:
        page = attachments.versions.listed(PREFIX, after=place)
        for key in dict.fromkeys(one.key for one in page.versions):
            if key > seen and key.endswith(FILE):
                yield key.removesuffix(FILE)
                seen = key
        if page.behind is None:
            return
        place = page.behind


def read(name: str) -> Archived | None:
    """A file as it is now, or was before somebody's deletion by hand; None if it is gone.

    UnreadableError if it lies in cold storage.
    """
    found = attachments.versions.listed(name + FILE).versions
    file = next(iter(found), None)
    try:
        packed = attachments.versions.get(file) if file else None
    except attachments.ColdError:
        raise UnreadableError from None
    return Archived(name, file, packed) if file and packed is not None else None


def mend(archived: Archived, ids: Sequence[str], *, lease: Lease) -> Cleaned:
    """Complete what a run that rewrote a file did not: its manifest, and the versions before."""
    file = (archived.file.key, archived.file.version_id)
    newest = next(iter(attachments.versions.listed(archived.name + MANIFEST).versions), None)
    text = attachments.versions.get(newest) if newest else None
    if not (text and archived.is_told_by(text)):
        newest = None
        lease.hold()
    manifest = (
        (newest.key, newest.version_id)
        if newest
        else write_manifest(archived.name, ids, archived.packed, archived.file.version_id)
    )
    return clean(archived.name, file, manifest, lease=lease)
