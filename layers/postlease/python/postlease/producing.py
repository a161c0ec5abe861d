"""The producers' contract in Python: `postlease.enqueue`, on the producer's own connection.

For code that shares the layer. Nothing here reads a setting, opens a connection or commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from postlease import addresses, outbox
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    import psycopg

    from postlease.model import AttachmentReference, DeliveryPolicy


@dataclass(frozen=True, slots=True)
class Recipient:
    """An address, and the name to show before it."""

    email: str = field(repr=False)
    name: str = field(default="", repr=False)


Recipients: TypeAlias = "str | Recipient | Iterable[str | Recipient]"
"""One, or several: each text is one address."""


def enqueue(  # noqa: PLR0913 - one for each of the contract's
    conn: psycopg.Connection[Any],
    template: str,
    to: Recipients,
    parameters: Mapping[str, Any] | None = None,
    *,
    cc: Recipients = (),
    bcc: Recipients = (),
    locale: str = "en",
    priority: int = 50,
    delivery: DeliveryPolicy = "at_least_once",
    send_at: datetime | None = None,
    expires_at: datetime | None = None,
    idempotency_key: str | None = None,
    cancel_scope: str | None = None,
    from_address: str | None = None,
    reply_to: str | None = None,
    tags: Mapping[str, str] | None = None,
    attachments: Sequence[AttachmentReference] = (),
) -> UUID:
    """Ask for an email in conn's transaction; answers the message's id.

    It is mailed once you commit, and not if you roll back; on an autocommit connection outside of a
    transaction block, at once. Domains outside ASCII become A-labels. Times are aware.

    Raises InvalidInputError with the argument's pointer before the database is asked; afterwards
    DatabaseError with the constraint that refused the message, or UnavailableError: then your
    transaction can only be rolled back. None of them repeats what was passed.
    """
    names: dict[str, str] = {}
    for pointer, moment in (("/send_at", send_at), ("/expires_at", expires_at)):
        if moment is not None and not isinstance(moment, datetime):
            raise InvalidInputError(pointer, "a moment is a datetime")
        if moment is not None and moment.tzinfo is None:
            raise InvalidInputError(pointer, "a moment needs a time zone")
    return outbox.enqueue(
        conn,
        template=template,
        to=_plain(to, "/to", names),
        cc=_plain(cc, "/cc", names),
        bcc=_plain(bcc, "/bcc", names),
        names=names,
        parameters=parameters or {},
        locale=locale,
        priority=priority,
        delivery=delivery,
        send_at=send_at,
        expires_at=expires_at,
        idempotency_key=idempotency_key,
        cancel_scope=cancel_scope,
        from_address=_mailbox(from_address, "/from_address"),
        reply_to=_mailbox(reply_to, "/reply_to"),
        tags=tags,
        attachments=attachments,
    )


def _plain(recipients: Recipients, pointer: str, names: dict[str, str]) -> list[str]:
    """The addresses as they are mailed to; their names are added to names."""
    several = [recipients] if isinstance(recipients, str | Recipient) else recipients
    plain = []
    for place, one in enumerate(several):
        recipient = Recipient(one) if isinstance(one, str) else one
        address = addresses.parse(recipient.email, pointer=f"{pointer}/{place}")
        if recipient.name:
            names[address.canonical] = recipient.name
        plain.append(address.deliverable)
    return plain


def _mailbox(text: str | None, pointer: str) -> str | None:
    if text is None:
        return None
    sender = addresses.parse_sender(text, pointer=pointer)
    return f"{sender.name} <{sender.address}>" if sender.name else sender.address
