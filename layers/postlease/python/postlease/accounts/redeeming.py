"""What redeeming a token has in common, whatever it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease import tokens
from postlease.errors import TokenError

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import Purpose

FIND: LiteralString = """-- accounts.find_token
SELECT t.id, t.user_id, t.token_hash, t.redeemed_at, t.superseded_at, u.verified_at,
       u.email_canonical
FROM postlease.verification_tokens AS t
JOIN postlease.users AS u ON u.id = t.user_id
WHERE t.id = %(id)s AND t.purpose = %(purpose)s
"""

LOCK_USER: LiteralString = """-- accounts.lock_user
SELECT FROM postlease.users WHERE id = %(user_id)s FOR NO KEY UPDATE
"""


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token and its user, as they were when they were read."""

    id: UUID
    user_id: UUID
    redeemed_at: datetime | None
    superseded_at: datetime | None
    verified_at: datetime | None
    email_canonical: str


def parse(token: str) -> UUID:
    """The id inside a token's text; TokenError `token-invalid` for what cannot be one of ours."""
    token_id = tokens.parse(token)
    if token_id is None:
        raise TokenError("token-invalid")
    return token_id


def find(connection: Connection, token: str, purpose: Purpose) -> FoundToken:
    """The token behind its text, read without a lock; TokenError `token-invalid` if there is none.

    Whoever holds no token must not make anybody wait.
    """
    row = connection.execute(FIND, {"id": parse(token), "purpose": purpose}).fetchone()
    if row is None or not tokens.matches(token, row.pop("token_hash")):
        raise TokenError("token-invalid")
    return FoundToken(**row)


def lock_user(connection: Connection, user_id: UUID) -> None:
    """Take the lock that every change of a user's tokens takes first."""
    connection.execute(LOCK_USER, {"user_id": user_id})
