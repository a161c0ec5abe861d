"""Somebody asks for a mail to an address: known or not, the same work, and the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString
from uuid import UUID, uuid4

from postlease import addresses, doorbell
from postlease.accounts import ground, mailboxes
from postlease.accounts.issuing import LockedUser

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease import tokens
    from postlease.accounts.mailboxes import Flow
    from postlease.addresses import Address
    from postlease.database import Connection, Database

DEFAULT_LOCALE = "en"

# An account that exists is locked and left as it is.
MEET: LiteralString = """-- accounts.meet
INSERT INTO postlease.users AS known (id, email, email_canonical, locale)
VALUES (%(id)s, %(email)s, %(canonical)s, %(locale)s)
ON CONFLICT (email_canonical) DO UPDATE SET email = known.email
RETURNING id, verified_at
"""

# Undone or kept, it is one statement: the driver's own savepoint takes two to undo.
MARK: LiteralString = """-- accounts.mark_asking
SAVEPOINT asking
"""
KEEP: LiteralString = """-- accounts.settle_asking
RELEASE SAVEPOINT asking
"""
UNDO: LiteralString = """-- accounts.settle_asking
ROLLBACK TO SAVEPOINT asking
"""


def ask(
    database: Database,
    *,
    email: str,
    flow: Flow,
    enqueue: Callable[[Connection, tokens.KeyRing, LockedUser], UUID],
) -> None:
    """Let enqueue ask for the account's mail, unless a limit holds; commits, then rings.

    Raises InvalidInputError (`/email`), UnavailableError.
    """
    address = addresses.parse(email, pointer="/email")
    mailbox = mailboxes.mailbox(ground.pepper(), flow, address.canonical)
    ring = ground.key_ring()
    with ground.transaction(database) as connection:
        message_id = mailboxes.held(connection, mailbox)
        if message_id is None:
            message_id = _work(connection, ring, address, enqueue)
            mailboxes.note(connection, mailbox, message_id)
    doorbell.ring([message_id])


def _work(
    connection: Connection,
    ring: tokens.KeyRing,
    address: Address,
    enqueue: Callable[[Connection, tokens.KeyRing, LockedUser], UUID],
) -> UUID:
    """The mail's id. For an address that nobody knows all is done, and undone: nobody has the id.

    A shorter way for one of the two would show in the time that the answer takes.
    """
    new = {
        "id": uuid4(),
        "email": address.deliverable,
        "canonical": address.canonical,
        "locale": DEFAULT_LOCALE,
    }
    connection.execute(MARK)
    [row] = connection.execute(MEET, new).fetchall()
    message_id = enqueue(connection, ring, LockedUser(**row))
    connection.execute(UNDO if row["id"] == new["id"] else KEEP)
    return message_id
