"""A new password asked for, and the right to set one redeemed, once. The password is not ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from uuid import UUID

from postlease import idempotency, outbox, tokens
from postlease.accounts import ground, mailboxes, redeeming
from postlease.accounts.asking import ask
from postlease.accounts.issuing import enqueue_reset
from postlease.config import settings
from postlease.errors import TokenError

if TYPE_CHECKING:
    from postlease.database import Connection, Database

REDEEMED = 200
"""The status code that a redemption's stored answer is replayed with."""

REDEEM_RESET: LiteralString = """-- accounts.redeem_reset
UPDATE postlease.verification_tokens SET redeemed_at = now()
WHERE id = %(id)s AND redeemed_at IS NULL AND superseded_at IS NULL AND expires_at > now()
"""


@dataclass(frozen=True, slots=True)
class Redeemed:
    """Whose password may be set now. replayed: it was so already under this Idempotency-Key."""

    user_id: UUID
    replayed: bool = False


def request_reset(database: Database, *, email: str) -> str:
    """Mail a link for a new password if there is an account and no limit; commits, then rings.

    Nothing tells which it was. Whether the address is verified makes no difference. Answers the
    event for logs alone, as `ask` does. Raises InvalidInputError (`/email`), UnavailableError.
    """
    return ask(database, email=email, flow="reset", enqueue=enqueue_reset)


def redeem_reset(
    database: Database, *, token: str, idempotency_key: str | None, principal: str
) -> Redeemed:
    """Redeem a reset's token for principal, once; commits.

    Also ends the mailbox's cooldown. The answer is stored under idempotency_key (the header's
    value as it came) with the redemption: a repeat under the key gets it again, whatever became of
    the token; a repeat without one is `token-used`. Raises TokenError (`token-invalid`,
    `token-expired`, `token-superseded`, `token-used`), MalformedInputError for the key,
    ConflictError for a key in use, UnavailableError.
    """
    redeeming.parse(token)
    pepper = ground.pepper()
    key = _idempotency_key(pepper, principal, token, idempotency_key)
    with ground.transaction(database) as connection:
        if key is not None:
            lifetime = settings().idempotency_lifetime
            if stored := idempotency.begin(connection, key, lifetime=lifetime):
                return Redeemed(UUID(stored.response["user_id"]), replayed=True)
        user_id = _redeem(connection, pepper, token)
        if key is not None:
            response = {"user_id": str(user_id)}
            idempotency.finish(connection, key, status_code=REDEEMED, response=response)
    return Redeemed(user_id)


def _redeem(connection: Connection, pepper: bytes, token: str) -> UUID:
    found = redeeming.find(connection, token, "reset_password")
    mailboxes.clear(connection, mailboxes.mailbox(pepper, "reset", found.email_canonical))
    redeeming.lock_user(connection, found.user_id)
    if connection.execute(REDEEM_RESET, {"id": found.id}).rowcount:
        outbox.supersede(connection, [found.id])
        return found.user_id
    now = redeeming.find(connection, token, "reset_password")
    if now.redeemed_at is not None:
        raise TokenError("token-used")
    raise TokenError("token-expired" if now.superseded_at is None else "token-superseded")


def _idempotency_key(
    pepper: bytes, principal: str, token: str, header: str | None
) -> idempotency.Key | None:
    """The digests of the key, if there is one: a signed caller's scope is route and principal."""
    if header is None:
        return None
    scope = (b"idempotency", b"POST /v1/password-resets/redeem", principal.encode())
    content = idempotency.canonical({"token": token})
    return idempotency.Key(
        key_digest=tokens.keyed_digest(pepper, *scope, idempotency.parse(header).encode()),
        request_digest=tokens.keyed_digest(pepper, b"request", content),
    )
