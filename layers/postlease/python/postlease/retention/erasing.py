"""A person's request: whatever names an address is redacted, here and in the archive.

What is pending is cancelled; what is being sent is left alone and counted, so that the request is
repeated until nothing is. The digests of the suppression list stay, for they keep mail from being
sent to the address; so does an account, which its application closes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from postlease import outbox
from postlease.database import translated_errors
from postlease.errors import InvalidInputError
from postlease.retention import files
from postlease.retention.duties import Lease
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database

PAGE = 5_000
"""Rows of one look: a transaction each."""

ACCOUNT: LiteralString = """-- retention.account
SELECT u.id FROM postlease.users AS u WHERE u.email_canonical = %(address)s
"""


@dataclass(frozen=True, slots=True)
class Erasure:
    """What one run erased; no address in it.

    cancelled: pending messages, redacted too; redacted: finished ones; sending: those on their way,
    which the next run is for; objects: noted for deletion, which retention does. files_read,
    files_rewritten and archived: files of the archive, and messages in them; versions: of these
    files, those deleted. user_id: an account that still has the address. complete: nothing is left
    that names it; otherwise the next run goes on with after.
    """

    cancelled: int = 0
    redacted: int = 0
    sending: int = 0
    objects: int = 0
    files_read: int = 0
    files_rewritten: int = 0
    archived: int = 0
    versions: int = 0
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
    if kind not in {"rows", "files"} or (kind == "rows" and not _is_place(place)):
        raise InvalidInputError("/after", "is none that an erasure answered")
    erasure = Erasure(user_id=_account(database, address))
    if kind == "rows":
        erasure = _erase_rows(database, address, erasure, UUID(place) if place else None, has_time)
        place = ""
    if erasure.after is None:
        erasure = _erase_files(database, address, erasure, place, has_time)
    erasure = replace(erasure, complete=erasure.after is None and not erasure.sending)
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
        found, archived, deleted = _rewritten(name, address)
        erasure = replace(
            erasure,
            files_read=erasure.files_read + found,
            files_rewritten=erasure.files_rewritten + bool(archived),
            archived=erasure.archived + archived,
            versions=erasure.versions + deleted,
        )
        after = name + files.FILE
    lease.give_back()
    return erasure


def _rewritten(name: str, address: str) -> tuple[int, int, int]:
    """Files read, messages redacted in it, versions deleted.

    New file, new manifest, then the versions before them: a run that dies in between is repeated
    by the next, which finds a manifest that does not fit, or older versions.
    """
    file = files.read(name)
    if file is None:
        return 0, 0, 0
    documents = [json.loads(line) for line in file.lines]
    named = [document for document in documents if _names(document["message"], address)]
    ids = [document["message"]["id"] for document in documents]
    for document in named:
        _redact(document, address)
    if named:
        lines = [json.dumps(document, ensure_ascii=False) for document in documents]
        written = files.write(name, ids, lines)
        return 1, len(named), files.clean(name, written.file, written.manifest)
    return 1, 0, files.mend(file, ids)


def _names(message: dict[str, Any], address: str) -> bool:
    recipients = (
        *message["to_addresses"],
        *message["cc_addresses"],
        *message["bcc_addresses"],
    )
    return address in map(str.lower, recipients) or address in (message["reply_to"] or "").lower()


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
    if address in (message["idempotency_key"] or "").lower():
        message["idempotency_key"] = f"erased:{message['id']}"
    if address in (message["cancel_scope"] or "").lower():
        message["cancel_scope"] = None
    document["attachments"] = []
