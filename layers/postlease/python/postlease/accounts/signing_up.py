"""Sign up, and ask for the mail again. Known, unknown, verified or not: the answer is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from postlease import addresses, doorbell, idempotency, outbox, tokens
from postlease.accounts import ground, mailboxes
from postlease.accounts.asking import DEFAULT_LOCALE, ask
from postlease.accounts.events import PublicStatus, public_status
from postlease.accounts.issuing import LockedUser, enqueue_verification
from postlease.config import settings
from postlease.errors import InvalidInputError
from postlease.model import event_id

if TYPE_CHECKING:
    from postlease.addresses import Address
    from postlease.database import Connection, Database

ACCEPTED = 202
"""The status code that a sign-up's stored answer is replayed with."""

# BCP 47 (RFC 5646) in its usual shape: a language and its subtags, no extensions.
_LOCALE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_LOCALE_LONGEST = 35

# One write for a new, an unverified and a verified user alike, and it locks the row. Until an
# address is proven, the latest request chooses the language.
SIGN_UP: LiteralString = """-- accounts.sign_up
INSERT INTO postlease.users AS known (email, email_canonical, locale)
VALUES (%(email)s, %(canonical)s, coalesce(%(locale)s, %(default_locale)s))
ON CONFLICT (email_canonical) DO UPDATE SET
    locale = CASE WHEN known.verified_at IS NULL
        THEN coalesce(%(locale)s, known.locale) ELSE known.locale END
RETURNING id, verified_at
"""


@dataclass(frozen=True, slots=True)
class SignUp:
    """A sign-up's answer. replayed: it is an earlier equal request's, found by its key."""

    user_id: UUID
    event_id: str
    status: PublicStatus
    replayed: bool = False


def sign_up(
    database: Database, *, email: str, locale: str | None = None, idempotency_key: str | None = None
) -> SignUp:
    """Make sure that the account exists and that a mail about it is under way; commits, then rings.

    Inside the mailbox's limits nothing is superseded and the event that exists is answered,
    whatever the key; another sub-address of that mailbox gets its account, but no second mail.
    idempotency_key is the header's value as it came. Raises InvalidInputError (`/email`, `/locale`;
    MalformedInputError for the key), ConflictError for a key in use, UnavailableError.
    """
    address = addresses.parse(email, pointer="/email")
    _check_locale(locale)
    pepper = ground.pepper()
    ring = ground.key_ring()
    key = _idempotency_key(pepper, address, locale, idempotency_key)
    with ground.transaction(database) as connection:
        if key is not None:
            lifetime = settings().idempotency_lifetime
            if stored := idempotency.begin(connection, key, lifetime=lifetime):
                return _replay(stored.response)
        answer, message_id = _sign_up(connection, ring, pepper, address, locale)
        if key is not None:
            stored_answer = {
                "user_id": str(answer.user_id),
                "event_id": answer.event_id,
                "status": answer.status,
            }
            idempotency.finish(connection, key, status_code=ACCEPTED, response=stored_answer)
    doorbell.ring([message_id])
    return answer


def resend_verification(database: Database, *, email: str) -> str:
    """Send the mail again if there is an account and no limit; commits, then rings.

    Nothing tells which it was: an unknown address has the same limits, and costs the same work. A
    verified account gets a note that it exists. Answers the event for logs alone, as `ask` does.
    Raises InvalidInputError (`/email`), UnavailableError.
    """
    return ask(database, email=email, flow="verification", enqueue=enqueue_verification)


def _sign_up(
    connection: Connection,
    ring: tokens.KeyRing,
    pepper: bytes,
    address: Address,
    locale: str | None,
) -> tuple[SignUp, UUID]:
    """The answer, and the message that it is about."""
    mailbox = mailboxes.mailbox(pepper, "signup", address.canonical)
    held = mailboxes.held(connection, mailbox).new
    fields = {
        "email": address.deliverable,
        "canonical": address.canonical,
        "locale": locale,
        "default_locale": DEFAULT_LOCALE,
    }
    [row] = connection.execute(SIGN_UP, fields).fetchall()
    user = LockedUser(**row)
    if held is not None and (state := outbox.event_state(connection, held)):
        # What never left holds nobody: its account was closed, say, and its link is dead.
        status = public_status(state)
        if status != "expired":
            return SignUp(user.id, event_id(held), status), held
    message_id = enqueue_verification(connection, ring, user).id
    mailboxes.note(connection, mailbox, message_id)
    return SignUp(user.id, event_id(message_id), "queued"), message_id


def _idempotency_key(
    pepper: bytes, address: Address, locale: str | None, header: str | None
) -> idempotency.Key | None:
    """The digests of the key, if there is one: an anonymous caller's scope is route and address."""
    if header is None:
        return None
    scope = (b"idempotency", b"POST /v1/signups", address.canonical.encode())
    content = idempotency.canonical({"email": address.deliverable, "locale": locale})
    return idempotency.Key(
        key_digest=tokens.keyed_digest(pepper, *scope, idempotency.parse(header).encode()),
        request_digest=tokens.keyed_digest(pepper, b"request", content),
    )


def _replay(response: dict[str, Any]) -> SignUp:
    return SignUp(
        user_id=UUID(response["user_id"]),
        event_id=response["event_id"],
        status=response["status"],
        replayed=True,
    )


def _check_locale(locale: str | None) -> None:
    if locale is None:
        return
    if len(locale) > _LOCALE_LONGEST or not _LOCALE.fullmatch(locale):
        raise InvalidInputError("/locale", "must be a language tag such as `en` or `pt-BR`")
