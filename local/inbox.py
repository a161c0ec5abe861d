"""The mails that the provider accepted, parsed, newest last."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from email.message import EmailMessage


KEPT_BYTES = 1024 * 1024
"""The bytes of a larger mail are not kept: a hundred of them would fill the machine."""


class Inbox:
    """Keeps every accepted mail until it is emptied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mails: list[dict[str, Any]] = []
        self._contents: dict[str, bytes] = {}

    def add(
        self, *, provider_message_id: str, content: bytes, recipients: dict[str, Sequence[str]]
    ) -> None:
        """Keep a mail. The recipients are the envelope's: a header says nothing of a bcc."""
        mail = _parsed(content)
        mail |= {
            "provider_message_id": provider_message_id,
            **{field: list(addresses) for field, addresses in recipients.items()},
            "received_at": datetime.now(UTC).isoformat(),
        }
        with self._lock:
            self._mails.append(mail)
            if len(content) <= KEPT_BYTES:
                self._contents[provider_message_id] = content

    def mails(self) -> list[dict[str, Any]]:
        """All mails, newest last."""
        with self._lock:
            return list(self._mails)

    def newest(self, limit: int, *, behind: str | None = None) -> tuple[list[dict[str, Any]], int]:
        """At most limit mails, newest first, and how many there are in all.

        behind: only those older than the mail of that id; all, if it is not there.
        """
        with self._lock:
            found = self._mails[::-1]
        ids = [mail["provider_message_id"] for mail in found]
        begin = ids.index(behind) + 1 if behind in ids else 0
        return found[begin : begin + limit], len(found)

    def of(self, message_id: str) -> list[dict[str, Any]]:
        """The mails of one message, by its event id; more than one is a duplicate."""
        return [mail for mail in self.mails() if mail["message_id"] == message_id]

    def find(self, provider_message_id: str) -> dict[str, Any] | None:
        """The mail of that id, or None."""
        with self._lock:
            found = (m for m in self._mails if m["provider_message_id"] == provider_message_id)
            return next(found, None)

    def content(self, provider_message_id: str) -> bytes | None:
        """The mail of that id as it was sent, or None where it is unknown or was too large."""
        with self._lock:
            return self._contents.get(provider_message_id)

    def clear(self) -> None:
        """Forget every mail."""
        with self._lock:
            self._mails.clear()
            self._contents.clear()


def _parsed(content: bytes) -> dict[str, Any]:
    message: EmailMessage = message_from_bytes(content, policy=policy.default)
    return {
        "provider_message_id": None,
        "message_id": _header(message, "X-Postlease-Id"),
        "from": _header(message, "From"),
        "to": [],
        "cc": [],
        "bcc": [],
        "subject": _header(message, "Subject"),
        "text": _body(message, "plain"),
        "html": _body(message, "html"),
        "headers": [[name, str(value)] for name, value in message.items()],
        "attachments": [
            {
                "filename": part.get_filename(),
                "content_type": part.get_content_type(),
                "content_id": part["Content-ID"] and str(part["Content-ID"]).strip("<>"),
                "size": len(part.get_payload(decode=True) or b""),
            }
            for part in message.walk()
            if part.get_content_disposition() is not None
        ],
    }


def _header(message: EmailMessage, name: str) -> str | None:
    value = message[name]
    return None if value is None else str(value)


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body(preferencelist=(kind,))
    if part is None:
        return None
    try:
        text = str(part.get_content())
    except LookupError:  # a charset that Python does not know: show what can be shown
        payload = part.get_payload(decode=True)
        text = payload.decode("latin-1") if isinstance(payload, bytes) else ""
    return text.replace("\r\n", "\n")
