"""The whole message: structure, bodies, attachments, inline images.

The standard library's `EmailMessage` builds the structure, with boundaries that no body can hold.
"""

from __future__ import annotations

import re
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING

from postlease.errors import TemplateError
from postlease.mime.filenames import ascii_filename, shown_filename
from postlease.mime.headers import guard, mailboxes, subject
from postlease.model import Addressing, Mailbox, event_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from email.message import MIMEPart
    from uuid import UUID

    from postlease.model import Attachment, Envelope, RenderedMail

_POLICY = SMTP.clone(cte_type="7bit", refold_source="none", max_line_length=76)
"""76: an encoded line may not be longer (RFC 2045, 6.7 and 6.8), and the default is 78."""

_MEDIA_TYPE = re.compile(
    r"([A-Za-z0-9][\w!#$&^.+-]{0,63})/([A-Za-z0-9][\w!#$&^.+-]{0,126})", re.ASCII
)
_COMPOSITE = {"multipart", "message"}
"""They may not be base64 (RFC 2046, 5.2.1): an attached one is bytes like any other."""

_PLAIN = Addressing()

_CONTENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REFERENCE = re.compile(rf"\bcid:({_CONTENT_ID.pattern})", re.IGNORECASE)


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
    message = EmailMessage(policy=_POLICY)
    for header, boxes in (
        ("From", (Mailbox(shown.sender, envelope.sender),)),
        ("To", _named(envelope.to, shown.recipients)),
        ("Cc", _named(envelope.cc, shown.recipients)),
        ("Reply-To", (shown.reply_to,) if shown.reply_to else ()),
    ):
        if boxes:
            message.set_raw(header, mailboxes(boxes, header=header))
    message.set_raw("Subject", subject(rendered.subject))
    message.set_raw("Date", format_datetime(sent_at))
    message.set_raw("Message-ID", message_identifier(message_id, envelope.sender))
    message.set_raw("Auto-Submitted", "auto-generated")
    message.set_raw("X-Auto-Response-Suppress", "All")
    message.set_raw("X-Postlease-Id", event_id(message_id))
    message.set_raw("X-Postlease-Attempt", str(attempt))
    _check_content_ids(attachments)
    html = _add_bodies(message, rendered)
    referred = set(_REFERENCE.findall(rendered.html))
    for attachment in attachments:
        _attach(message, html, attachment, referred)
    _name_boundaries(message, message_id)
    return message.as_bytes()


def message_identifier(message_id: UUID, sender: str) -> str:
    """The Message-ID header of a message: the row's id at the sender's domain, in every attempt."""
    return f"<{message_id}@{sender.rpartition('@')[2]}>"


def _named(addresses: Sequence[str], names: Mapping[str, str]) -> tuple[Mailbox, ...]:
    return tuple(Mailbox(names.get(address.lower(), ""), address) for address in addresses)


def _add_bodies(message: EmailMessage, rendered: RenderedMail) -> MIMEPart:
    """Add both bodies; the part that the HTML and what it shows are in."""
    try:
        message.set_content(rendered.text, cte=_encoding(rendered.text))
        message.add_alternative(rendered.html, subtype="html", cte=_encoding(rendered.html))
    except UnicodeEncodeError:
        raise TemplateError("invalid_text") from None
    return list(message.iter_parts())[-1]


def _encoding(body: str) -> str:
    """Whichever is shorter: quoted-printable triples a byte outside ASCII, base64 adds a third."""
    size = len(body.encode())
    return "quoted-printable" if (size - len(body)) * 3 < size else "base64"


def _check_content_ids(attachments: Sequence[Attachment]) -> None:
    ids = [a.content_id for a in attachments if a.content_id is not None]
    if not all(map(_CONTENT_ID.fullmatch, ids)):
        raise TemplateError("invalid_header", "Content-ID")
    if len(set(ids)) < len(ids):
        raise TemplateError("repeated_content_id")


def _attach(
    message: EmailMessage, html: MIMEPart, attachment: Attachment, referred: set[str]
) -> None:
    filename = shown_filename(attachment.filename)
    guard(attachment.content_type, header="Content-Type")
    match = _MEDIA_TYPE.fullmatch(attachment.content_type)
    if match is None or match[1].lower() in _COMPOSITE:
        maintype, subtype = "application", "octet-stream"
    else:
        maintype, subtype = match[1].lower(), match[2].lower()
    params = {"name": ascii_filename(filename)}  # for programs that know no RFC 2231
    if maintype == "image" and attachment.content_id in referred:
        html.add_related(
            attachment.content,
            maintype,
            subtype,
            disposition="inline",
            filename=filename,
            cid=f"<{attachment.content_id}>",
            params=params,
        )
        html.set_param("type", "text/html")
    else:
        message.add_attachment(
            attachment.content, maintype, subtype, filename=filename, params=params
        )


def _name_boundaries(message: EmailMessage, message_id: UUID) -> None:
    """`=_` occurs in neither quoted-printable nor base64, so no body can hold a boundary."""
    composites = [part for part in message.walk() if part.is_multipart()]
    for number, part in enumerate(composites):
        part.set_boundary(f"=_{message_id.hex}_{number}")
