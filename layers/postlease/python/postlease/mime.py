"""RFC 5322 bytes out of a rendered mail. Pure: the same arguments give the same bytes.

The standard library's `EmailMessage` builds the structure. Headers that hold free text or
addresses are folded here, because its own folding leaves commas outside of encoded words, puts
encoded words inside of addresses and writes empty ones (python/cpython#121284, #136052).

Whom a mail is delivered to is not read from these bytes: that is the envelope's duty.
"""

from __future__ import annotations

import re
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING

from postlease.errors import TemplateError
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from postlease.model import Attachment, Envelope, RenderedMail

_POLICY = SMTP.clone(cte_type="7bit", refold_source="none")
_LINE_END = "\r\n"
_FOLD_AT = 76

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]{1,60}")
_MEDIA_TYPE = re.compile(
    r"([A-Za-z0-9][\w!#$&^.+-]{0,63})/([A-Za-z0-9][\w!#$&^.+-]{0,126})", re.ASCII
)
_COMPOSITE = {"multipart", "message"}
"""They may not be base64 (RFC 2046, 5.2.1): an attached one is bytes like any other."""

_UNSHOWABLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Invisible or turning the reading direction: `\u202egpj.exe` would look like a picture."""

_LONGEST_FILENAME = 200
"""Bytes of UTF-8: every mail program and file system can keep it."""


def compose(
    *,
    envelope: Envelope,
    rendered: RenderedMail,
    attachments: Sequence[Attachment],
    message_id: UUID,
    attempt: int,
    sent_at: datetime,
    reply_to: str | None = None,
    sender_name: str | None = None,
) -> bytes:
    """One whole message in ASCII: text and HTML as alternatives, then the attachments.

    Blind copies stand in no header. Bodies are quoted-printable or base64, never 8bit, so that
    a relay has no reason to rewrite them; their line ends come back as single newlines.
    Whitespace in the subject is collapsed (editors end files with a newline). TemplateError:
    `invalid_header` for a control character, a line separator or a lone surrogate in anything
    header-bound, or an address that is not plain ASCII `name@domain`; `empty_subject`;
    `invalid_text` for a body that is not Unicode text.
    """
    message = EmailMessage(policy=_POLICY)
    message.set_raw("From", _mailbox(sender_name or "", envelope.sender, header="From"))
    for header, addresses in (
        ("To", envelope.to),
        ("Cc", envelope.cc),
        ("Reply-To", (reply_to,) if reply_to else ()),
    ):
        if addresses:
            boxes = [_mailbox("", address, header=header) for address in addresses]
            message.set_raw(header, f",{_LINE_END} ".join(boxes))
    message.set_raw("Subject", _subject(rendered.subject))
    message.set_raw("Date", format_datetime(sent_at))
    message.set_raw("Message-ID", message_identifier(message_id, envelope.sender))
    message.set_raw("Auto-Submitted", "auto-generated")
    message.set_raw("X-Auto-Response-Suppress", "All")
    message.set_raw("X-Postlease-Id", event_id(message_id))
    message.set_raw("X-Postlease-Attempt", str(attempt))
    _add_bodies(message, rendered)
    for attachment in attachments:
        _attach(message, attachment)
    _name_boundaries(message, message_id)
    return message.as_bytes()


def message_identifier(message_id: UUID, sender: str) -> str:
    """The Message-ID header of a message: the row's id at the sender's domain, in every attempt."""
    return f"<{message_id}@{sender.rpartition('@')[2]}>"


def _guard(text: str, *, header: str) -> str:
    if _FORBIDDEN.search(text):
        raise TemplateError("invalid_header", header)
    return text


def _mailbox(name: str, address: str, *, header: str) -> str:
    """`name <address>`, folded; only the name is ever encoded (RFC 2047, section 5 (3))."""
    if not _ADDRESS.fullmatch(address):
        raise TemplateError("invalid_header", header)
    name = _guard(name, header=header).strip(" ")
    if not name:
        return address
    if _PLAIN_NAME.fullmatch(name) and "=?" not in name:
        phrase = name
    elif name.isascii() and len(name) <= 60 and "=?" not in name:
        phrase = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    else:
        phrase = _encoded_words(name, header=header)
    return f"{phrase}{_LINE_END} <{address}>"


def _subject(text: str) -> str:
    text = re.sub("[ \t\r\n]+", " ", text).strip(" ")
    if not text:
        raise TemplateError("empty_subject")
    _guard(text, header="Subject")
    # What looks like an encoded word, and a word too long to fold, goes out encoded.
    if text.isascii() and "=?" not in text and max(map(len, text.split(" "))) < 60:
        return Header(text, "us-ascii", _FOLD_AT, "Subject").encode(linesep=_LINE_END)
    return _encoded_words(text, header="Subject")


def _encoded_words(text: str, *, header: str) -> str:
    return Header(text, "utf-8", _FOLD_AT, header).encode(linesep=_LINE_END)


def _add_bodies(message: EmailMessage, rendered: RenderedMail) -> None:
    try:
        message.set_content(rendered.text, cte=_encoding(rendered.text))
        message.add_alternative(rendered.html, subtype="html", cte=_encoding(rendered.html))
    except UnicodeEncodeError:
        raise TemplateError("invalid_text") from None


def _encoding(body: str) -> str:
    """Whichever is shorter: quoted-printable triples a byte outside ASCII, base64 adds a third."""
    size = len(body.encode())
    return "quoted-printable" if (size - len(body)) * 3 < size else "base64"


def _attach(message: EmailMessage, attachment: Attachment) -> None:
    filename = _filename(attachment.filename)
    _guard(attachment.content_type, header="Content-Type")
    match = _MEDIA_TYPE.fullmatch(attachment.content_type)
    if match is None or match[1].lower() in _COMPOSITE:
        maintype, subtype = "application", "octet-stream"
    else:
        maintype, subtype = match[1].lower(), match[2].lower()
    message.add_attachment(
        attachment.content,
        maintype=maintype,
        subtype=subtype,
        filename=filename,
        # Programs that know no RFC 2231 look here.
        params={"name": _ascii_filename(filename)},
    )


def _filename(name: str) -> str:
    """The last part of a path, without what misleads a reader; never empty, `.` or `..`."""
    name = re.split(r"[/\\]", _guard(name, header="Content-Disposition"))[-1]
    name = _UNSHOWABLE.sub("", name).strip()
    if not name.strip("."):
        return "attachment"
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending.encode()) > 20:
        stem, dot, ending = name, "", ""
    room = _LONGEST_FILENAME - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore") + dot + ending


def _ascii_filename(name: str) -> str:
    """A stand-in short enough that it needs no RFC 2231 itself; it keeps the name's end."""
    return re.sub(r"[^A-Za-z0-9 !#$&()+,.;=@^_`{}~-]", "_", name)[-40:]


def _name_boundaries(message: EmailMessage, message_id: UUID) -> None:
    """`=_` occurs in neither quoted-printable nor base64, so no body can hold a boundary."""
    composites = [part for part in message.walk() if part.is_multipart()]
    for number, part in enumerate(composites):
        part.set_boundary(f"=_{message_id.hex}_{number}")
