"""A composed mail as the JSON fields of Resend's `POST /emails`. Pure.

The bytes that `mime` composed and guarded stay the one truth: names, subject, bodies and
attachments are read back out of them. Whom the mail is for comes from the envelope alone.

The attempt's number and the date are left out: they differ between two attempts, and Resend takes
another body under the same key for another mail.
"""

from __future__ import annotations

import base64
from email import message_from_bytes
from email.headerregistry import Address, AddressHeader
from email.policy import default
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from email.message import EmailMessage

    from postlease.model import OutgoingMail

_KEPT = ("Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress", "X-Postlease-Id")


def fields(mail: OutgoingMail) -> dict[str, Any]:
    """The request's body, equal for every attempt at one message as long as its content is."""
    message = message_from_bytes(mail.content, policy=default)
    envelope = mail.envelope
    tags = {**mail.tags, "postlease-id": str(mail.message_id)}
    found: dict[str, Any] = {
        "from": str(Address(_name(message), addr_spec=envelope.sender)),
        "to": list(envelope.to),
        "cc": list(envelope.cc),
        "bcc": list(envelope.bcc),
        "reply_to": [address.addr_spec for address in _addresses(message, "Reply-To")],
        "subject": str(message["Subject"] or ""),
        "text": _body(message, "plain"),
        "html": _body(message, "html"),
        "headers": {name: str(message[name]) for name in _KEPT if name in message},
        "attachments": [_attachment(part) for part in message.iter_attachments()],
        "tags": [{"name": name, "value": value} for name, value in sorted(tags.items())],
    }
    return {name: value for name, value in found.items() if value not in ([], None)}


def _addresses(message: EmailMessage, header: str) -> tuple[Address, ...]:
    value = message[header]
    return value.addresses if isinstance(value, AddressHeader) else ()


def _name(message: EmailMessage) -> str:
    return next((address.display_name for address in _addresses(message, "From")), "")


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    return None if part is None else str(part.get_content()).replace("\r\n", "\n")


def _attachment(part: EmailMessage) -> dict[str, str]:
    content = part.get_payload(decode=True)
    return {
        "filename": part.get_filename("attachment"),
        "content_type": part.get_content_type(),
        "content": base64.b64encode(content if isinstance(content, bytes) else b"").decode(),
    }
