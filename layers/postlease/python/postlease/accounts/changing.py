"""What a signed caller does to an account: each ends links that prove what is no longer so.

Whoever is called by name here is trusted, and learns whether an account exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from uuid import UUID

from psycopg import errors as refusals

from postlease import addresses, doorbell, outbox
from postlease.accounts import ground, mailboxes
from postlease.accounts.issuing import LockedUser, end_live, enqueue_verification
from postlease.errors import ConflictError, MalformedInputError, UnavailableError
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postlease.accounts.mailboxes import Flow, Mailbox
    from postlease.database import Connection, Database

_ALL: tuple[Flow, ...] = ("signup", "verification", "reset")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)

LOOK: LiteralString = """-- accounts.look
SELECT email, email_canonical FROM postlease.users WHERE id = %(id)s
"""

LOCK: LiteralString = """-- accounts.lock
SELECT email, email_canonical FROM postlease.users WHERE id = %(id)s FOR UPDATE
"""

SPELL: LiteralString = """-- accounts.spell
UPDATE postlease.users SET email = %(email)s WHERE id = %(id)s
"""

MOVE: LiteralString = """-- accounts.move
UPDATE postlease.users
SET email = %(email)s, email_canonical = %(canonical)s, verified_at = NULL
WHERE id = %(id)s
"""

CLOSE: LiteralString = """-- accounts.close
DELETE FROM postlease.users WHERE id = %(id)s
"""


@dataclass(frozen=True, slots=True)
class Changed:
    """An address change's answer. event_id is the mail that proves the new address, if it is one.

    None: the account had this address already, and what is proven stays proven.
    """

    user_id: UUID
    event_id: str | None


@dataclass(frozen=True, slots=True)
class _User:
    """An account and its address, its row locked FOR UPDATE."""

    id: UUID
    email: str
    email_canonical: str


def change_address(database: Database, wire_id: str, *, email: str) -> Changed | None:
    """Give the account another address, not verified yet, and mail it; commits, then rings.

    The live tokens of both purposes are superseded, with their pending mail. None: there is no
    such account. Raises MalformedInputError (`id`), InvalidInputError (`/email`), ConflictError
    (`address-taken`), UnavailableError.
    """
    user_id = _parse(wire_id)
    address = addresses.parse(email, pointer="/email")
    pepper = ground.pepper()
    ring = ground.key_ring()
    target = mailboxes.mailbox(pepper, "signup", address.canonical)
    with ground.transaction(database) as connection:
        user = _lock(connection, pepper, user_id, ended=_ALL, begun=target)
        if user is None:
            return None
        new = {"id": user_id, "email": address.deliverable, "canonical": address.canonical}
        if user.email_canonical == address.canonical:
            connection.execute(SPELL, new)
            return Changed(user_id, None)
        try:
            connection.execute(MOVE, new)
        except refusals.UniqueViolation:
            raise ConflictError("address-taken", "another account has this address") from None
        end_live(connection, user_id, "verify_email", "reset_password")
        outbox.supersede_notes(connection, user_id)
        message_id = enqueue_verification(connection, ring, LockedUser(user_id, None)).id
        mailboxes.note(connection, target, message_id)
    doorbell.ring([message_id])
    return Changed(user_id, event_id(message_id))


def close(database: Database, wire_id: str) -> bool:
    """Delete the account; commits. False: there was none.

    Its links end, and pending mail to it. Raises MalformedInputError (`id`), UnavailableError.
    """
    user_id = _parse(wire_id)
    pepper = ground.pepper()
    with ground.transaction(database) as connection:
        user = _lock(connection, pepper, user_id, ended=_ALL)
        if user is None:
            return False
        end_live(connection, user_id, "verify_email", "reset_password")
        outbox.supersede_notes(connection, user_id)
        connection.execute(CLOSE, {"id": user_id})
    return True


def revoke_resets(database: Database, wire_id: str) -> UUID | None:
    """End the account's reset links, since its password was changed otherwise; commits.

    Answers whose they were, or None if there is no such account. Raises MalformedInputError
    (`id`), UnavailableError.
    """
    user_id = _parse(wire_id)
    pepper = ground.pepper()
    with ground.transaction(database) as connection:
        if _lock(connection, pepper, user_id, ended=("reset",)) is None:
            return None
        end_live(connection, user_id, "reset_password")
    return user_id


def _lock(
    connection: Connection,
    pepper: bytes,
    user_id: UUID,
    *,
    ended: Sequence[Flow],
    begun: Mailbox | None = None,
) -> _User | None:
    """Lock the account behind its mailboxes' cooldowns, which end or begin; None if it is gone.

    A cooldown that outlived its mail would swallow the next request for one.
    """
    row = connection.execute(LOOK, {"id": user_id}).fetchone()
    if row is None:
        return None
    old = [mailboxes.mailbox(pepper, flow, row["email_canonical"]) for flow in ended]
    mailboxes.turn(connection, ended=old, begun=begun)
    locked = connection.execute(LOCK, {"id": user_id}).fetchone()
    if locked is None:
        return None
    if locked["email_canonical"] != row["email_canonical"]:
        raise UnavailableError("the account was given another address at this moment")
    return _User(user_id, **locked)


def _parse(wire_id: str) -> UUID:
    if not _UUID.fullmatch(wire_id):
        raise MalformedInputError("id", "must be a UUID with its hyphens")
    return UUID(wire_id)
