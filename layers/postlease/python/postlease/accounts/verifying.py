"""A verification token redeemed: once, and every repeat gets the same success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease import limits, outbox, tokens
from postlease.accounts import ground
from postlease.errors import TokenError

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from postlease.database import Connection, Database, Row

_COOLDOWN = "verification"

FIND: LiteralString = """-- accounts.find_token
SELECT t.id, t.user_id, t.token_hash, t.redeemed_at, u.verified_at, u.email_canonical
FROM postlease.verification_tokens AS t
JOIN postlease.users AS u ON u.id = t.user_id
WHERE t.id = %(id)s AND t.purpose = 'verify_email'
"""

LOCK_USER: LiteralString = """-- accounts.lock_user
SELECT FROM postlease.users WHERE id = %(user_id)s FOR NO KEY UPDATE
"""

REDEEM: LiteralString = """-- accounts.redeem
WITH redeemed AS (
    UPDATE postlease.verification_tokens SET redeemed_at = now()
    WHERE id = %(id)s AND redeemed_at IS NULL AND superseded_at IS NULL AND expires_at > now()
    RETURNING user_id
)
UPDATE postlease.users AS u SET verified_at = coalesce(u.verified_at, now())
FROM redeemed WHERE u.id = redeemed.user_id
RETURNING u.verified_at
"""

WHY_NOT: LiteralString = """-- accounts.why_not_redeemed
SELECT t.redeemed_at, t.superseded_at, u.verified_at
FROM postlease.verification_tokens AS t
JOIN postlease.users AS u ON u.id = t.user_id
WHERE t.id = %(id)s
"""


@dataclass(frozen=True, slots=True)
class Verified:
    """The address is proven, since verified_at."""

    user_id: UUID
    verified_at: datetime


def verify(database: Database, *, token: str) -> Verified:
    """Redeem token, or answer that it was redeemed before; commits.

    Also ends the mailbox's cooldown and any mail of this token that has not left. Raises
    TokenError: `token-invalid` for a text that is no token of ours, `token-superseded` when a newer
    one was issued, `token-expired`. UnavailableError when the database does not answer.
    """
    token_id = tokens.parse(token)
    if token_id is None:
        raise TokenError("token-invalid")
    pepper = ground.pepper()
    with ground.transaction(database) as connection:
        # Without a lock: whoever holds no token must not make anybody wait.
        found = connection.execute(FIND, {"id": token_id}).fetchone()
        if found is None or not tokens.matches(token, found["token_hash"]):
            raise TokenError("token-invalid")
        if found["redeemed_at"] is not None:
            return _repeated(found["user_id"], found)
        limits.clear(connection, limits.mailbox_digest(pepper, _COOLDOWN, found["email_canonical"]))
        return _redeem(connection, token_id, found["user_id"])


def _redeem(connection: Connection, token_id: UUID, user_id: UUID) -> Verified:
    """Redeem under the user's lock, which every change of a user's tokens takes first."""
    connection.execute(LOCK_USER, {"user_id": user_id})
    redeemed = connection.execute(REDEEM, {"id": token_id}).fetchone()
    if redeemed is not None:
        outbox.supersede(connection, [token_id])
        return Verified(user_id, redeemed["verified_at"])
    found = connection.execute(WHY_NOT, {"id": token_id}).fetchone()
    if found is None:  # retention took it meanwhile
        raise TokenError("token-invalid")
    if found["redeemed_at"] is not None:
        return _repeated(user_id, found)
    if found["superseded_at"] is not None:
        raise TokenError("token-superseded")
    raise TokenError("token-expired")


def _repeated(user_id: UUID, row: Row) -> Verified:
    """The first redemption's success, as long as what it proved still stands."""
    if row["verified_at"] is None:
        raise TokenError("token-superseded")
    return Verified(user_id, row["verified_at"])
