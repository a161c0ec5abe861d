"""A composed mail as the JSON fields of Resend's `POST /emails`. Pure.

The bytes that `mime` composed and guarded stay the one truth: names, subject, bodies,
attachments and inline images are read back out of them. Whom the mail is for comes from the
envelope alone.

The attempt's number and the date are left out: they differ between two attempts, and Resend takes
another body under the same key for another mail.
"""

from __future__ import annotations

import base64
import re
from email import message_from_bytes
from email.policy import default
from typing import TYPE_CHECKING, Any

from postlease.mime import read_mailboxes

if TYPE_CHECKING:
    from email.message import EmailMessage

    from postlease.model import Mailbox, OutgoingMail

_ADDRESSES = ("From", "To", "Cc", "Reply-To")
_KEPT = ("Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress", "X-Postlease-Id")

_READ_OTHERWISE = re.compile(r"""[][()<>@,:;.\\"]|=\?""")


def fields(mail: OutgoingMail) -> dict[str, Any]:
    """The request's body, equal for every attempt at one message as long as its content is."""
    message = message_from_bytes(mail.content, policy=default)
    envelope = mail.envelope
    tags = {**mail.tags, "postlease-id": str(mail.message_id)}
    shown = {
        name: {box.address: _written(box) for box in read_mailboxes(str(value))}
        for name, value in message.raw_items()
        if name in _ADDRESSES
    }
    found: dict[str, Any] = {
        "from": shown["From"].get(envelope.sender, envelope.sender),
        "to": [shown["To"].get(address, address) for address in envelope.to],
        "cc": [shown["Cc"].get(address, address) for address in envelope.cc],
        "bcc": list(envelope.bcc),
        "reply_to": list(shown.get("Reply-To", {}).values()),
        "subject": str(message["Subject"] or ""),
        "text": _body(message, "plain"),
        "html": _body(message, "html"),
        "headers": {name: str(message[name]) for name in _KEPT if name in message},
        "attachments": [_attachment(part) for part in message.walk() if part.get_filename()],
        "tags": [{"name": name, "value": value} for name, value in sorted(tags.items())],
    }
    return {name: value for name, value in found.items() if value not in ([], None)}


def _written(box: Mailbox) -> str:
    """`name <address>`; a name that could be read otherwise stands in quotes."""
    if not box.name:
        return box.address
    if _READ_OTHERWISE.search(box.name):
        quoted = re.sub(r'(["\\])', r"\\\1", box.name)
        return f'"{quoted}" <{box.address}>'
    return f"{box.name} <{box.address}>"


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    return None if part is None else str(part.get_content()).replace("\r\n", "\n")


def _attachment(part: EmailMessage) -> dict[str, str]:
    content = part.get_payload(decode=True)
    found = {
        "filename": part.get_filename("attachment"),
        "content_type": part.get_content_type(),
        "content": base64.b64encode(content if isinstance(content, bytes) else b"").decode(),
    }
    if "Content-ID" in part:
        found["content_id"] = str(part["Content-ID"]).strip("<>")
    return found
