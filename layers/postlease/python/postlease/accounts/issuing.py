"""A verification token and its mail, with what they replace. In the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from uuid import UUID, uuid4

from postlease import outbox, tokens
from postlease.config import settings

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.database import Connection
    from postlease.model import Purpose

_PURPOSE: Purpose = "verify_email"

END_LIVE: LiteralString = """-- accounts.end_live
UPDATE postlease.verification_tokens SET superseded_at = now()
WHERE user_id = %(user_id)s AND purpose = %(purpose)s
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


@dataclass(frozen=True, slots=True)
class LockedUser:
    """A user whose row the transaction has locked, FOR NO KEY UPDATE or stronger."""

    id: UUID
    verified_at: datetime | None


def enqueue_verification(connection: Connection, ring: tokens.KeyRing, user: LockedUser) -> UUID:
    """Ask for the mail that user needs to get on, and answer its id.

    Unverified: the live token is superseded together with its pending mail, and the next version
    goes out. Verified: a note that the account exists, and nothing is superseded.
    """
    if user.verified_at is not None:
        return outbox.enqueue_auth(connection, template="account_exists", user_id=user.id)
    whose = {"user_id": user.id, "purpose": _PURPOSE}
    ended = [row["id"] for row in connection.execute(END_LIVE, whose)]
    token_id = _issue(connection, ring, user.id)
    outbox.supersede(connection, ended)
    return outbox.enqueue_auth(connection, template=_PURPOSE, user_id=user.id, token_id=token_id)


def _issue(connection: Connection, ring: tokens.KeyRing, user_id: UUID) -> UUID:
    """Store the user's next token. Its text is made here, hashed, and forgotten."""
    whose = {"user_id": user_id, "purpose": _PURPOSE}
    [row] = connection.execute(NEXT_VERSION, whose).fetchall()
    token_id = uuid4()
    token = tokens.derive(
        ring.key(ring.current),
        purpose=_PURPOSE,
        token_id=token_id,
        version=row["version"],
        user_id=user_id,
    )
    connection.execute(
        ISSUE,
        {
            "id": token_id,
            "user_id": user_id,
            "purpose": _PURPOSE,
            "version": row["version"],
            "token_hash": tokens.token_hash(token),
            "key_id": ring.current,
            "lifetime": settings().verify_token_lifetime,
        },
    )
    return token_id
