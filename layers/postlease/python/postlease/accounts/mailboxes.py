"""How often one mailbox is written to: a cooldown, and so many mails an hour and a day, per flow.

Whoever asks too soon is answered as if the mail had been sent: with the last one. Only mail counts:
what was asked for an address that nobody knows must not use up the limits of whoever owns another
address of that mailbox. A limit that showed would tell who has an account; so a request that is
held does the work of one that is not.

A sign-up shows the mail that it is answered with. So only a sign-up's mail holds another: a mail
that was asked for again exists for known addresses alone, and would tell of them. The other way
round nothing shows: whoever asks for the mail again is held by a sign-up's cooldown too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from postlease import limits
from postlease.config import settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.database import Connection

Flow: TypeAlias = Literal["signup", "verification", "reset"]


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One mailbox in one flow: the key of its cooldown, and its counted windows.

    others are the keys of other flows' cooldowns within which this one's mail is not sent either.
    """

    cooldown: bytes = field(repr=False)
    windows: tuple[limits.Window, ...]
    others: tuple[bytes, ...] = field(default=(), repr=False)


def mailbox(pepper: bytes, flow: Flow, canonical_address: str) -> Mailbox:
    """The mailbox behind an address, with the limits that the settings give it."""
    counted = (
        ("hour", timedelta(hours=1), settings().mailbox_limit_per_hour),
        ("day", timedelta(days=1), settings().mailbox_limit_per_day),
    )
    return Mailbox(
        limits.mailbox_digest(pepper, flow, canonical_address),
        tuple(
            limits.Window(
                limits.mailbox_digest(pepper, flow, canonical_address, use=name), length, most
            )
            for name, length, most in counted
            if most is not None
        ),
        (limits.mailbox_digest(pepper, "signup", canonical_address),)
        if flow == "verification"
        else (),
    )


def held(connection: Connection, asking: Mailbox) -> UUID | None:
    """The mail that is the answer, or None when another one may leave; then `note` it.

    Locks the mailbox's cooldowns until the transaction ends, so that its requests take turns.
    """
    noted = {
        digest: limits.take(connection, digest, window=settings().signup_cooldown)
        for digest in sorted((asking.cooldown, *asking.others))
    }
    within = noted[asking.cooldown] or next(filter(None, noted.values()), None)
    used_up = limits.spent(connection, asking.windows)  # asked for either way: it takes its time
    return within or used_up


def note(connection: Connection, asking: Mailbox, message_id: UUID | None) -> None:
    """One more mail: requests are answered with it as long as a limit holds. None: it was none.

    The same rows are written either way.
    """
    limits.note(connection, asking.cooldown, message_id, window=settings().signup_cooldown)
    times: Literal[0, 1] = 0 if message_id is None else 1
    limits.count(connection, asking.windows, message_id=message_id, times=times)


def clear(connection: Connection, asking: Mailbox) -> None:
    """End the cooldowns, since the flow was completed. What was counted stays counted."""
    turn(connection, ended=[asking])


def turn(connection: Connection, *, ended: Sequence[Mailbox], begun: Mailbox | None = None) -> None:
    """End the cooldowns of some, and lock that of one for a mail that no limit holds: `note` it."""
    over = {digest for one in ended for digest in (one.cooldown, *one.others)}
    for digest in sorted(over | ({begun.cooldown} if begun else set())):
        if digest in over:
            limits.clear(connection, digest)
        if begun and digest == begun.cooldown:
            limits.take(connection, digest, window=settings().signup_cooldown)
