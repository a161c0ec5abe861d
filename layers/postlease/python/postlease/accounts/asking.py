"""Somebody asks for a mail to an address: known or not, the same work, and the same answer.

Held by a limit or not, too: a mailbox's addresses share its limits, so that the time of an answer
for one of them would tell whether another is known. Nor does what they share decide over an earlier
mail of the address that was asked for, which a sign-up may have shown: one that has not left is
replaced, and one on its way, or that may have left, is what the request is answered with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString
from uuid import uuid4

from postlease import addresses, doorbell
from postlease.accounts import ground, mailboxes
from postlease.accounts.issuing import LockedUser
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease import tokens
    from postlease.accounts.issuing import Enqueued
    from postlease.accounts.mailboxes import Flow, Held
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
    enqueue: Callable[[Connection, tokens.KeyRing, LockedUser], Enqueued],
) -> str:
    """Let enqueue ask for the account's mail, unless a limit holds; commits, then rings.

    Answers the event that the request is about, for logs alone: of an address that nobody knows it
    is one that does not exist, and who asked must not be told. Raises InvalidInputError
    (`/email`), UnavailableError.
    """
    address = addresses.parse(email, pointer="/email")
    mailbox = mailboxes.mailbox(ground.pepper(), flow, address.canonical)
    ring = ground.key_ring()
    with ground.transaction(database) as connection:
        held = mailboxes.held(connection, mailbox)
        mail, stands = _work(connection, ring, address, enqueue, held)
        mailboxes.note(connection, mailbox, mail.id if stands else None, replaces=mail.replaces)
    about = mail.id if stands else held.new or mail.id
    doorbell.ring([about])
    return event_id(about)


def _work(
    connection: Connection,
    ring: tokens.KeyRing,
    address: Address,
    enqueue: Callable[[Connection, tokens.KeyRing, LockedUser], Enqueued],
    held: Held,
) -> tuple[Enqueued, bool]:
    """The mail, and whether it stands.

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
    mail = enqueue(connection, ring, LockedUser(**row))
    stands = row["id"] != new["id"] and _may_leave(mail, held)
    connection.execute(KEEP if stands else UNDO)
    return mail, stands


def _may_leave(mail: Enqueued, held: Held) -> bool:
    if mail.replaces:
        return held.replacement is None
    return not mail.meets and held.new is None
