"""How often one mailbox is written to: a cooldown, and so many mails an hour and a day, per flow.

Whoever asks too soon is answered as if the mail had been sent: with the last one. Only mail counts:
what was asked for an address that nobody knows must not use up the limits of whoever owns another
address of that mailbox. A limit that showed would tell who has an account; so a request that is
held does the work of one that is not.

A sign-up shows the mail that it is answered with. So only a sign-up's mail holds another: a mail
that was asked for again exists for known addresses alone, and would tell of them. The other way
round nothing shows: whoever asks for the mail again is held by a sign-up's cooldown too.

What becomes of a sign-up's mail shows as well. So what the mailbox's other addresses were mailed
does not hold a mail that replaces one of its own address: that has not left, and the mailbox gets
no more mail than it would have. Such a mail has a cooldown of its address, and is held by sign-ups.
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

    own is the key of the cooldown of the address itself. others and their windows are sign-ups',
    for a flow whose mail is not sent within their cooldown either.
    """

    cooldown: bytes = field(repr=False)
    windows: tuple[limits.Window, ...]
    own: tuple[bytes, ...] = field(default=(), repr=False)
    others: tuple[bytes, ...] = field(default=(), repr=False)
    others_windows: tuple[limits.Window, ...] = ()

    @property
    def cooldowns(self) -> tuple[bytes, ...]:
        """The keys of all cooldowns."""
        return (self.cooldown, *self.own, *self.others)


@dataclass(frozen=True, slots=True)
class Held:
    """The mail that a limit answers a request with, or None where another may leave.

    new: where that adds a mail to the mailbox. replacement: where it takes the place of one.
    """

    new: UUID | None
    replacement: UUID | None


def mailbox(pepper: bytes, flow: Flow, canonical_address: str) -> Mailbox:
    """The mailbox behind an address, with the limits that the settings give it."""
    cooldown, windows = _limits(pepper, flow, canonical_address)
    if flow == "signup":
        return Mailbox(cooldown, windows)
    own = limits.address_digest(pepper, flow, canonical_address)
    if flow == "reset":
        return Mailbox(cooldown, windows, (own,))
    other, others_windows = _limits(pepper, "signup", canonical_address)
    return Mailbox(cooldown, windows, (own,), (other,), others_windows)


def held(connection: Connection, asking: Mailbox) -> Held:
    """What holds a request, if anything does; then `note` what came of it.

    Locks the mailbox's cooldowns until the transaction ends, so that its requests take turns.
    """
    noted = {
        digest: limits.take(connection, digest, window=settings().signup_cooldown)
        for digest in sorted(asking.cooldowns)
    }
    # Asked for either way: it takes its time.
    used_up = limits.spent(connection, asking.windows)
    others_used_up = limits.spent(connection, asking.others_windows)
    always = next(filter(None, (noted[digest] for digest in (*asking.own, *asking.others))), None)
    new = always or noted[asking.cooldown] or used_up
    return Held(new=new, replacement=always or others_used_up)


def note(
    connection: Connection, asking: Mailbox, message_id: UUID | None, *, replaces: bool = False
) -> None:
    """One more mail: requests are answered with it as long as a limit holds. None: it was none.

    One that replaces another is not counted, and begins the address's own cooldown alone. The same
    rows are written whatever it was.
    """
    window = settings().signup_cooldown
    for digest in asking.own:
        limits.note(connection, digest, message_id, window=window)
    counted = None if replaces else message_id
    limits.note(connection, asking.cooldown, counted, window=window)
    times: Literal[0, 1] = 0 if counted is None else 1
    limits.count(connection, asking.windows, message_id=counted, times=times)


def clear(connection: Connection, asking: Mailbox) -> None:
    """End the cooldowns, since the flow was completed. What was counted stays counted."""
    turn(connection, ended=[asking])


def turn(connection: Connection, *, ended: Sequence[Mailbox], begun: Mailbox | None = None) -> None:
    """End the cooldowns of some; lock those of one for a mail that no limit holds: `note` it."""
    over = {digest for one in ended for digest in one.cooldowns}
    begins = {begun.cooldown, *begun.own} if begun else set()
    for digest in sorted(over | begins):
        if digest in over:
            limits.clear(connection, digest)
        if digest in begins:
            limits.take(connection, digest, window=settings().signup_cooldown)


def _limits(
    pepper: bytes, flow: Flow, canonical_address: str
) -> tuple[bytes, tuple[limits.Window, ...]]:
    """The key of a flow's cooldown, and its windows, that all addresses of the mailbox share."""
    counted = (
        ("hour", timedelta(hours=1), settings().mailbox_limit_per_hour),
        ("day", timedelta(days=1), settings().mailbox_limit_per_day),
    )
    windows = tuple(
        limits.Window(
            limits.mailbox_digest(pepper, flow, canonical_address, use=name), length, most
        )
        for name, length, most in counted
        if most is not None
    )
    return limits.mailbox_digest(pepper, flow, canonical_address), windows
