"""Objects that no message refers to any more leave the storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.attachments.storage import AbsentError, storage, translated
from postlease.config import settings
from postlease.database import translated_errors
from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import ObjectIdentifierTypeDef

    from postlease.database import Connection

DELETE_LIMIT = 1000
"""What one DeleteObjects call takes."""

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
    with translated_errors():
        rows = connection.execute(NOTED, {"after": after, "limit": DELETE_LIMIT}).fetchall()
    if not rows:
        return Deleted(objects=0, refused=0, last=None)
    named: list[ObjectIdentifierTypeDef] = [
        {"Key": row["storage_ref"], "VersionId": row["version_id"]} for row in rows
    ]
    try:
        with translated():
            answer = storage().delete_objects(
                Bucket=settings().attachments_bucket, Delete={"Objects": named, "Quiet": True}
            )
    except AbsentError:
        raise UnavailableError("the attachment storage refused") from None
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
