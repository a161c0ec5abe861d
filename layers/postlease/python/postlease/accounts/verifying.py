"""A verification token redeemed: once, and every repeat gets the same success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease import outbox
from postlease.accounts import ground, mailboxes, redeeming
from postlease.errors import TokenError

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from postlease.accounts.redeeming import FoundToken
    from postlease.database import Connection, Database

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
    redeeming.parse(token)
    pepper = ground.pepper()
    with ground.transaction(database) as connection:
        found = redeeming.find(connection, token, "verify_email")
        if found.redeemed_at is not None:
            return repeated(found)
        mailbox = mailboxes.mailbox(pepper, "verification", found.email_canonical)
        mailboxes.clear(connection, mailbox)
        redeeming.lock_user(connection, found.user_id)
        if verified := redeem(connection, found.id, found.user_id):
            return verified
        now = redeeming.find(connection, token, "verify_email")
        if now.redeemed_at is not None:
            return repeated(now)
        raise TokenError("token-expired" if now.superseded_at is None else "token-superseded")


def redeem(connection: Connection, token_id: UUID, user_id: UUID) -> Verified | None:
    """Redeem a live token under its user's lock, with the end of its mail; None: it is not live."""
    redeemed = connection.execute(REDEEM, {"id": token_id}).fetchone()
    if redeemed is None:
        return None
    outbox.supersede(connection, [token_id])
    return Verified(user_id, redeemed["verified_at"])


def repeated(found: FoundToken) -> Verified:
    """The first redemption's success, as long as what it proved still stands."""
    if found.verified_at is None or not still_proves(found.redeemed_at, found.verified_at):
        raise TokenError("token-superseded")
    return Verified(found.user_id, found.verified_at)


def still_proves(redeemed_at: datetime | None, verified_at: datetime | None) -> bool:
    """Whether a redemption is what verified the account, or came after that.

    An account verified later has another address since.
    """
    return redeemed_at is not None and verified_at is not None and verified_at <= redeemed_at
