"""Somebody asks for a mail to an address: known or not, the same work, and the same answer.

Held by a limit or not, too: a mailbox's addresses share its limits, so that the time of an answer
for one of them would tell whether another is known.
"""

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
        held = mailboxes.held(connection, mailbox)
        message_id, is_mail = _work(connection, ring, address, enqueue, may_mail=held is None)
        mailboxes.note(connection, mailbox, message_id if is_mail else None)
    doorbell.ring([held or message_id])


def _work(
    connection: Connection,
    ring: tokens.KeyRing,
    address: Address,
    enqueue: Callable[[Connection, tokens.KeyRing, LockedUser], UUID],
    *,
    may_mail: bool,
) -> tuple[UUID, bool]:
    """The mail's id, and whether it stands.

    For an address that nobody knows, and where no mail may leave, all is done and undone: nobody
    has the id. A shorter way for one of them would show in the time that the answer takes.
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
    is_mail = may_mail and row["id"] != new["id"]
    connection.execute(KEEP if is_mail else UNDO)
    return message_id, is_mail
