"""The mails that the provider accepted, parsed, newest last."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from email.message import EmailMessage, MIMEPart

T = TypeVar("T")

KEPT_BYTES = 1024 * 1024
"""The bytes of a larger mail are not kept: a hundred of them would fill the machine."""

LONGEST_PARSED = 8_192
"""The characters of a header that is still parsed."""


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
    """The parts of a mail; of one that cannot be read whatever can be."""
    message: EmailMessage = message_from_bytes(content, policy=policy.default)
    headers = [[name, _value(name, text)] for name, text in message.raw_items()]
    first = {name.lower(): value for name, value in reversed(headers)}
    none: list[dict[str, Any]] = []
    return {
        "provider_message_id": None,
        "message_id": first.get("x-postlease-id"),
        "from": first.get("from"),
        "to": [],
        "cc": [],
        "bcc": [],
        "subject": first.get("subject"),
        "text": _read(lambda: _body(message, "plain"), None),
        "html": _read(lambda: _body(message, "html"), None),
        "headers": headers,
        "attachments": _read(lambda: _attachments(message), none),
    }


def _read(read: Callable[[], T], otherwise: T) -> T:
    """What read finds, or otherwise: the parser raises what it likes over a malformed mail."""
    try:
        return read()
    except Exception:  # noqa: BLE001  a mail that was accepted is in the inbox, whatever it holds
        return otherwise


def _value(name: str, text: Any) -> str:
    """A header as it is read, or as it stands: where it is malformed, or long enough to keep the
    parser busy for half a minute.
    """
    unfolded = "".join(str(text).splitlines())
    as_it_stands = unfolded.encode(errors="surrogateescape").decode(errors="replace")
    if len(as_it_stands) > LONGEST_PARSED:
        return as_it_stands
    return _read(lambda: str(policy.default.header_fetch_parse(name, text)), as_it_stands)


def _attachments(message: EmailMessage) -> list[dict[str, Any]]:
    return [
        {
            "filename": part.get_filename(),
            "content_type": part.get_content_type(),
            "content_id": part["Content-ID"] and str(part["Content-ID"]).strip("<>"),
            "size": len(_payload(part)),
        }
        for part in message.walk()
        if part.get_content_disposition() is not None
    ]


def _payload(part: MIMEPart) -> bytes:
    """What a part holds; of a mail in a mail, that mail."""
    if part.get_content_type() == "message/rfc822" and part.is_multipart():
        return bytes(part.get_content())
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body(preferencelist=(kind,))
    if part is None:
        return None
    try:
        text = str(part.get_content())
    except (LookupError, ValueError):  # a charset that Python does not know, or that is none
        text = _payload(part).decode("latin-1")
    return text.replace("\r\n", "\n")
