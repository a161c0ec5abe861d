"""A token and its mail, with what they replace. In the caller's transaction.

A token is live from its issue until it is redeemed, superseded or expired; a user has at most one
for each purpose. Whatever ends it ends its mail too, as long as that has not left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from uuid import UUID, uuid4

from postlease import outbox, tokens
from postlease.config import settings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from postlease.database import Connection, Row
    from postlease.model import Purpose

END_LIVE: LiteralString = """-- accounts.end_live
UPDATE postlease.verification_tokens SET superseded_at = now()
WHERE user_id = %(user_id)s AND purpose = ANY (%(purposes)s::text[])
  AND redeemed_at IS NULL AND superseded_at IS NULL
RETURNING id
"""

NEXT_VERSION: LiteralString = """-- accounts.next_version
SELECT coalesce(max(version), 0) + 1 AS version FROM postlease.verification_tokens
WHERE user_id = %(user_id)s AND purpose = %(purpose)s
"""

ISSUE: LiteralString = """-- accounts.issue
INSERT INTO postlease.verification_tokens
    (id, user_id, purpose, version, token_hash, key_id, expires_at)
VALUES (%(id)s, %(user_id)s, %(purpose)s, %(version)s, %(token_hash)s, %(key_id)s,
        now() + %(lifetime)s)
"""

# What a new mail may replace: the live token's, and notes. One whose outcome nobody learned may
# have left, though it waits again.
UNFINISHED: LiteralString = """-- accounts.unfinished
SELECT m.is_note, m.available_at, m.unknown_count = 0 AND m.keyed_since IS NULL AS is_known
FROM (
    SELECT false AS is_note, link.*
    FROM postlease.email_messages AS link
    WHERE link.token_id = ANY (ARRAY(
        SELECT t.id FROM postlease.verification_tokens AS t
        WHERE t.user_id = %(user_id)s AND t.purpose = %(purpose)s
          AND t.redeemed_at IS NULL AND t.superseded_at IS NULL))
    UNION ALL
    SELECT true, note.*
    FROM postlease.email_messages AS note
    WHERE note.producer = session_user
      AND note.cancel_scope = 'account_exists:' || %(user_id)s::text
) AS m
WHERE m.finished_at IS NULL
"""

MARK: LiteralString = """-- accounts.mark_rehearsal
SAVEPOINT rehearsal
"""
UNDO: LiteralString = """-- accounts.undo_rehearsal
ROLLBACK TO SAVEPOINT rehearsal
"""


@dataclass(frozen=True, slots=True)
class LockedUser:
    """A user whose row the transaction has locked, FOR NO KEY UPDATE or stronger."""

    id: UUID
    verified_at: datetime | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A mail that was asked for.

    replaces: it took the place of one that had not left, so that no mail more leaves. meets:
    another of its kind is on its way, or may have left.
    """

    id: UUID
    replaces: bool
    meets: bool


@dataclass(frozen=True, slots=True)
class _Earlier:
    """An account's unfinished mail: whether there is any, and since when what never left waits."""

    is_there: bool
    waits_since: datetime | None


@dataclass(frozen=True, slots=True)
class _Ended:
    """How much a new token replaced: tokens, and mails that had not left."""

    tokens: int
    mails: int


def enqueue_verification(
    connection: Connection, ring: tokens.KeyRing, user: LockedUser
) -> Enqueued:
    """Ask for the mail that user needs to get on.

    Unverified: the live token is superseded together with its pending mail, and the next version
    goes out. Verified: a note that the account exists, good for as long as a link, which supersedes
    a pending one; the token is made all the same and undone, so that neither time nor writes nor
    the state of an earlier mail tell one from the other.
    """
    unfinished = _unfinished(connection, user.id, "verify_email")
    notes = outbox.supersede_notes(connection, user.id)
    if user.verified_at is None:
        return _enqueue_link(connection, ring, user, "verify_email", _earlier(unfinished), notes)
    earlier = _earlier(row for row in unfinished if row["is_note"])
    message_id = outbox.enqueue_auth(
        connection,
        template="account_exists",
        user_id=user.id,
        lifetime=settings().token_lifetime("verify_email"),
    )
    outbox.take_place(connection, message_id, waits_since=earlier.waits_since)
    connection.execute(MARK)
    _, ended = _replace(connection, ring, user.id, "verify_email")
    ended = _Ended(tokens=ended.tokens, mails=ended.mails + notes)
    _rehearse(connection, user.id, "verify_email", ended, message_id)
    connection.execute(UNDO)
    return _enqueued(message_id, earlier, notes)


def enqueue_reset(connection: Connection, ring: tokens.KeyRing, user: LockedUser) -> Enqueued:
    """Ask for the mail with which user gets a new password, verified or not.

    The live reset token is superseded together with its pending mail.
    """
    unfinished = _unfinished(connection, user.id, "reset_password")
    earlier = _earlier(row for row in unfinished if not row["is_note"])
    return _enqueue_link(connection, ring, user, "reset_password", earlier)


def end_live(connection: Connection, user_id: UUID, *purposes: Purpose) -> _Ended:
    """Supersede the user's live tokens for these purposes, with their pending mail."""
    whose = {"user_id": user_id, "purposes": list(purposes)}
    ended = [row["id"] for row in connection.execute(END_LIVE, whose)]
    return _Ended(tokens=len(ended), mails=outbox.supersede(connection, ended))


def _unfinished(connection: Connection, user_id: UUID, purpose: Purpose) -> list[Row]:
    whose = {"user_id": user_id, "purpose": purpose}
    return connection.execute(UNFINISHED, whose).fetchall()


def _earlier(unfinished: Iterable[Row]) -> _Earlier:
    rows = list(unfinished)
    since = [row["available_at"] for row in rows if row["is_known"]]
    return _Earlier(bool(rows), min(since, default=None))


def _enqueued(message_id: UUID, earlier: _Earlier, superseded: int) -> Enqueued:
    """What waits is superseded, and so replaced; what a sender has taken is on its way."""
    replaces = earlier.waits_since is not None and superseded > 0
    return Enqueued(message_id, replaces=replaces, meets=earlier.is_there and not replaces)


def _enqueue_link(
    connection: Connection,
    ring: tokens.KeyRing,
    user: LockedUser,
    purpose: Purpose,
    earlier: _Earlier,
    notes: int = 0,
) -> Enqueued:
    token_id, ended = _replace(connection, ring, user.id, purpose)
    message_id = outbox.enqueue_auth(
        connection, template=purpose, user_id=user.id, token_id=token_id
    )
    outbox.take_place(connection, message_id, waits_since=earlier.waits_since)
    connection.execute(MARK)
    _rehearse(connection, user.id, purpose, ended, message_id)
    connection.execute(UNDO)
    return _enqueued(message_id, earlier, ended.mails + notes)


def _rehearse(
    connection: Connection, user_id: UUID, purpose: Purpose, ended: _Ended, message_id: UUID
) -> None:
    """Where nothing was superseded, do the work of it, which the caller undoes."""
    whose = {"user_id": user_id, "purposes": [] if ended.tokens else [purpose]}
    connection.execute(END_LIVE, whose)
    outbox.rehearse_supersede(connection, [] if ended.mails else [message_id])


def _replace(
    connection: Connection, ring: tokens.KeyRing, user_id: UUID, purpose: Purpose
) -> tuple[UUID, _Ended]:
    """Store the user's next token instead of the live one. Its text is made, hashed, forgotten.

    Answers its id, and what it replaced.
    """
    ended = end_live(connection, user_id, purpose)
    [row] = connection.execute(NEXT_VERSION, {"user_id": user_id, "purpose": purpose}).fetchall()
    token_id = uuid4()
    token = tokens.derive(
        ring.key(ring.current),
        purpose=purpose,
        token_id=token_id,
        version=row["version"],
        user_id=user_id,
    )
    connection.execute(
        ISSUE,
        {
            "id": token_id,
            "user_id": user_id,
            "purpose": purpose,
            "version": row["version"],
            "token_hash": tokens.token_hash(token),
            "key_id": ring.current,
            "lifetime": settings().token_lifetime(purpose),
        },
    )
    return token_id, ended
