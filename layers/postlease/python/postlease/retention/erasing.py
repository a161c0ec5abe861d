"""A person's request: whatever names an address is redacted, here and in the archive.

What is pending is cancelled; what is being sent is left alone and counted, so that the request is
repeated until nothing is. The digests of the suppression list stay, for they keep mail from being
sent to the address; so does an account, which its application closes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from postlease import outbox
from postlease.database import translated_errors
from postlease.errors import InvalidInputError
from postlease.retention import files
from postlease.retention.duties import Lease, LostError
from postlease.retention.files import UnreadableError
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database

PAGE = 5_000
"""Rows of one look: a transaction each."""

# In a place: what lies before it was not erased completely.
_LACKED = "!"

ACCOUNT: LiteralString = """-- retention.account
SELECT u.id FROM postlease.users AS u WHERE u.email_canonical = %(address)s
"""


@dataclass(frozen=True, slots=True)
class Erasure:
    """What one run erased; no address in it.

    cancelled: pending messages, redacted too; redacted: finished ones; sending: those on their way,
    which the next run is for; objects: noted for deletion, which retention does. files_read,
    files_rewritten and archived: files of the archive, and messages in them; versions: of these
    files, those deleted; refused: those that the storage keeps; unread: files that are none of
    ours, and were left. user_id: an account that still has the address. complete: nothing is left
    that names it, whatever the runs before this one found; otherwise the next goes on with after,
    or from the beginning.
    """

    cancelled: int = 0
    redacted: int = 0
    sending: int = 0
    objects: int = 0
    files_read: int = 0
    files_rewritten: int = 0
    archived: int = 0
    versions: int = 0
    refused: int = 0
    unread: int = 0
    user_id: str | None = None
    complete: bool = False
    after: str | None = None


def erase(
    database: Database, address: str, *, has_time: Callable[[], bool], after: str | None = None
) -> Erasure:
    """Erase address, in its canonical form, for as long as has_time says; repeat it until complete.

    after: where the run before ended, as it answered. InvalidInputError if it is none of ours,
    UnavailableError when database or storage is away; what was committed stays.
    """
    kind, _, place = (after or "rows:").partition(":")
    kind, lacked = kind.removesuffix(_LACKED), kind.endswith(_LACKED)
    if kind not in {"rows", "files"} or (kind == "rows" and not _is_place(place)):
        raise InvalidInputError("/after", "is none that an erasure answered")
    erasure = Erasure(user_id=_account(database, address))
    if kind == "rows":
        erasure = _erase_rows(database, address, erasure, UUID(place) if place else None, has_time)
        place = ""
    if erasure.after is None:
        erasure = _erase_files(database, address, erasure, place, has_time)
    lacks = lacked or bool(erasure.sending or erasure.refused or erasure.unread)
    if lacks and erasure.after is not None:
        erasure = replace(erasure, after=erasure.after.replace(":", f"{_LACKED}:", 1))
    erasure = replace(erasure, complete=erasure.after is None and not lacks)
    logger.info(
        "erased",
        extra={
            "cancelled": erasure.cancelled,
            "redacted": erasure.redacted,
            "sending": erasure.sending,
            "files_rewritten": erasure.files_rewritten,
            "complete": erasure.complete,
        },
    )
    return erasure


def _is_place(place: str) -> bool:
    try:
        return not place or bool(UUID(place))
    except ValueError:
        return False


def _account(database: Database, address: str) -> str | None:
    with translated_errors():
        row = database.connection().execute(ACCOUNT, {"address": address}).fetchone()
    return str(row["id"]) if row else None


def _erase_rows(
    database: Database,
    address: str,
    erasure: Erasure,
    after: UUID | None,
    has_time: Callable[[], bool],
) -> Erasure:
    while has_time():
        with database.transaction() as connection:
            page = outbox.erase(connection, address, after=after, page=PAGE)
        if page.last is None:
            return replace(erasure, after=None)
        after = page.last
        erasure = replace(
            erasure,
            cancelled=erasure.cancelled + page.cancelled,
            redacted=erasure.redacted + page.redacted,
            sending=erasure.sending + page.sending,
            objects=erasure.objects + page.objects,
        )
    return replace(erasure, after=f"rows:{after or ''}")


def _erase_files(
    database: Database, address: str, erasure: Erasure, after: str, has_time: Callable[[], bool]
) -> Erasure:
    """Each file that names address is written anew; older versions of any file are deleted."""
    lease = Lease(database, "archive")
    for name in files.names(after):
        if not (has_time() and lease.take()):
            lease.give_back()
            return replace(erasure, after=f"files:{after}")
        try:
            archived, cleaned = _rewritten(name, address, lease)
        except LostError:
            return replace(erasure, after=f"files:{after}")
        except UnreadableError:
            logger.warning("unreadable", extra={"file": files.told(name)})
            erasure = replace(erasure, unread=erasure.unread + 1)
        else:
            erasure = replace(
                erasure,
                files_read=erasure.files_read + 1,
                files_rewritten=erasure.files_rewritten + bool(archived),
                archived=erasure.archived + archived,
                versions=erasure.versions + cleaned.deleted,
                refused=erasure.refused + cleaned.refused,
            )
        after = name + files.FILE
    lease.give_back()
    return erasure


def _rewritten(name: str, address: str, lease: Lease) -> tuple[int, files.Cleaned]:
    """Messages redacted in a file, and what became of its versions.

    New file, new manifest, then the versions before them: a run that dies in between is repeated
    by the next, which finds a manifest that does not fit, or older versions. What names nobody
    stays as it was written, to the last digit.
    """
    file = files.read(name)
    if file is None:
        return 0, files.Cleaned()
    lines, ids, named = [], [], 0
    for line in file.lines:
        try:
            document = json.loads(line)
            is_theirs = _names(document["message"], address)
            if is_theirs:
                _redact(document, address)
            ids.append(str(document["message"]["id"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnreadableError from None
        lines.append(json.dumps(document, ensure_ascii=False) if is_theirs else line)
        named += is_theirs
    if not named:
        return 0, files.mend(file, ids, lease=lease)
    lease.hold()
    written = files.write(name, ids, lines)
    return named, files.clean(name, written.file, written.manifest, lease=lease)


def _names(message: dict[str, Any], address: str) -> bool:
    recipients = (
        *message["to_addresses"],
        *message["cc_addresses"],
        *message["bcc_addresses"],
    )
    reply_to = (message["reply_to"] or "").lower()
    return (
        address in map(str.lower, recipients)
        or re.search(outbox.mention(address), reply_to) is not None
    )


def _redact(document: dict[str, Any], address: str) -> None:
    """As `outbox.erase` does it in the table."""
    message = document["message"]
    message |= {
        "parameters": {},
        "recipient_names": {},
        "reply_to": None,
        "to_addresses": [outbox.REDACTED_ADDRESS],
        "cc_addresses": [],
        "bcc_addresses": [],
        "redacted_at": message["redacted_at"] or message["finished_at"],
    }
    spelling = outbox.spelling(address)
    if re.search(spelling, (message["idempotency_key"] or "").lower()):
        message["idempotency_key"] = f"erased:{message['id']}"
    if re.search(spelling, (message["cancel_scope"] or "").lower()):
        message["cancel_scope"] = None
    document["attachments"] = []
