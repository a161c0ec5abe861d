"""The whole message: its headers, and whether what follows is a skeleton or a tree."""

from __future__ import annotations

from email.utils import format_datetime
from typing import TYPE_CHECKING

from postlease.mime import skeleton
from postlease.mime.headers import mailboxes, subject
from postlease.model import Addressing, Mailbox, event_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from postlease.model import Attachment, Envelope, RenderedMail

_PLAIN = Addressing()


def compose(
    *,
    envelope: Envelope,
    rendered: RenderedMail,
    attachments: Sequence[Attachment],
    message_id: UUID,
    attempt: int,
    sent_at: datetime,
    shown: Addressing = _PLAIN,
) -> bytes:
    """One whole message in ASCII: text and HTML as alternatives, then the attachments.

    Blind copies stand in no header. Bodies are quoted-printable or base64, never 8bit, so that a
    relay has no reason to rewrite them; their line ends come back as single newlines. An image
    whose content_id the HTML names (`cid:…`) is inline, related to the HTML (RFC 2387); every other
    attachment is an ordinary one, without an id, so that no reader's program hides it. Whatever the
    mail's class, the only headers beside these are those that mark automatic mail and name the
    message: nothing offers to unsubscribe.

    TemplateError: `invalid_header` for a control character, a line separator or a lone surrogate in
    anything header-bound, an address that is not plain ASCII `name@domain`, or a content_id of
    another shape; `repeated_content_id`; `empty_subject`; `invalid_text` for a body that is not
    Unicode text.
    """
    headers = list(
        head(
            envelope=envelope,
            rendered=rendered,
            message_id=message_id,
            attempt=attempt,
            sent_at=sent_at,
            shown=shown,
        )
    )
    if not attachments:
        return skeleton.fill(headers, rendered, message_id)
    # 30 ms of import: a worker whose mail has nothing attached does not pay.
    from postlease.mime import building  # noqa: PLC0415

    return building.build(headers, rendered, attachments, message_id)


def head(
    *,
    envelope: Envelope,
    rendered: RenderedMail,
    message_id: UUID,
    attempt: int,
    sent_at: datetime,
    shown: Addressing = _PLAIN,
) -> Iterator[tuple[str, str]]:
    """Name and folded value of each header of a mail, but for those that tell of its structure."""
    for header, boxes in (
        ("From", (Mailbox(shown.sender, envelope.sender),)),
        ("To", _named(envelope.to, shown.recipients)),
        ("Cc", _named(envelope.cc, shown.recipients)),
        ("Reply-To", (shown.reply_to,) if shown.reply_to else ()),
    ):
        if boxes:
            yield header, mailboxes(boxes, header=header)
    yield "Subject", subject(rendered.subject)
    yield "Date", format_datetime(sent_at)
    yield "Message-ID", message_identifier(message_id, envelope.sender)
    yield "Auto-Submitted", "auto-generated"
    yield "X-Auto-Response-Suppress", "All"
    yield "X-Postlease-Id", event_id(message_id)
    yield "X-Postlease-Attempt", str(attempt)


def message_identifier(message_id: UUID, sender: str) -> str:
    """The Message-ID header of a message: the row's id at the sender's domain, in every attempt."""
    return f"<{message_id}@{sender.rpartition('@')[2]}>"


def _named(addresses: Sequence[str], names: Mapping[str, str]) -> tuple[Mailbox, ...]:
    return tuple(Mailbox(names.get(address.lower(), ""), address) for address in addresses)
