"""A mail as a tree of parts, by the standard library: whatever has something attached.

Boundaries are such that no body can hold one.
"""

from __future__ import annotations

import re
from email.message import EmailMessage
from email.policy import SMTP
from typing import TYPE_CHECKING

from postlease.errors import TemplateError
from postlease.mime.filenames import ascii_filename, shown_filename
from postlease.mime.headers import guard
from postlease.mime.skeleton import LONGEST_LINE, boundary, encoding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from email.message import MIMEPart
    from uuid import UUID

    from postlease.model import Attachment, RenderedMail

_POLICY = SMTP.clone(cte_type="7bit", refold_source="none", max_line_length=LONGEST_LINE)

_MEDIA_TYPE = re.compile(
    r"([A-Za-z0-9][\w!#$&^.+-]{0,63})/([A-Za-z0-9][\w!#$&^.+-]{0,126})", re.ASCII
)
_COMPOSITE = {"multipart", "message"}
"""They may not be base64 (RFC 2046, 5.2.1): an attached one is bytes like any other."""

_CONTENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REFERENCE = re.compile(rf"\bcid:({_CONTENT_ID.pattern})", re.IGNORECASE)


def build(
    headers: Iterable[tuple[str, str]],
    rendered: RenderedMail,
    attachments: Sequence[Attachment],
    message_id: UUID,
) -> bytes:
    """The mail with headers, which are folded already, and attachments, which may be none.

    TemplateError as `compose` says, for what is not about headers.
    """
    message = EmailMessage(policy=_POLICY)
    for name, value in headers:
        message.set_raw(name, value)
    _check_content_ids(attachments)
    html = _add_bodies(message, rendered)
    referred = set(_REFERENCE.findall(rendered.html))
    for attachment in attachments:
        _attach(message, html, attachment, referred)
    _name_boundaries(message, message_id)
    return message.as_bytes()


def _add_bodies(message: EmailMessage, rendered: RenderedMail) -> MIMEPart:
    """Add both bodies; the part that the HTML and what it shows are in."""
    try:
        message.set_content(rendered.text, cte=encoding(rendered.text.encode(), rendered.text))
        message.add_alternative(
            rendered.html, subtype="html", cte=encoding(rendered.html.encode(), rendered.html)
        )
    except UnicodeEncodeError:
        raise TemplateError("invalid_text") from None
    return list(message.iter_parts())[-1]


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
    composites = [part for part in message.walk() if part.is_multipart()]
    for number, part in enumerate(composites):
        part.set_boundary(boundary(message_id, number))
