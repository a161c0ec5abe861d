"""The inbox: what the provider accepted, a page at a time, and one mail with all its parts.

Mails may be as large as they like; the pages show their beginnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from local.console import drawing
from local.console.words import cut

if TYPE_CHECKING:
    from local.inbox import Inbox
    from local.web import Response

PAGE = 50
MOST_TEXT = 6_000
MOST_HEADERS = 30
_GONE = "There is no mail of that id: there never was, or the inbox was emptied."


class Mails:
    """The pages about an inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def listed(self, query: str) -> Response:
        """A page of the list, newest first."""
        [behind] = parse_qs(query).get("behind", [None])[:1]
        if behind is not None and self._inbox.find(behind) is None:
            return drawing.unknown(_GONE)
        found, number = self._inbox.newest(PAGE + 1, behind=behind)
        older = found[PAGE - 1]["provider_message_id"] if len(found) > PAGE else None
        return drawing.page(
            "inbox",
            mails=[_summary(mail) for mail in found[:PAGE]],
            number=number,
            older=older,
            behind=behind,
        )

    def shown(self, mail_id: str) -> Response:
        """One mail."""
        mail = self._inbox.find(mail_id)
        if mail is None:
            return drawing.unknown(_GONE)
        text = mail["text"]
        return drawing.page(
            "mail",
            mail=_summary(mail),
            html=mail["html"] is not None,
            text=None if text is None else text[:MOST_TEXT],
            rest=0 if text is None else max(len(text) - MOST_TEXT, 0),
            headers=[(cut(name, 80), cut(value, 200)) for name, value in mail["headers"]][
                :MOST_HEADERS
            ],
            more_headers=max(len(mail["headers"]) - MOST_HEADERS, 0),
            attachments=[
                one | {"filename": cut(one["filename"] or "(no name)", 100)}
                for one in mail["attachments"][:50]
            ],
            is_kept=self._inbox.content(mail_id) is not None,
        )

    def part(self, mail_id: str, part: str) -> Response:
        """A mail's HTML, or the whole of its text."""
        mail = self._inbox.find(mail_id)
        if mail is None or mail[part] is None:
            return drawing.unknown("There is no such mail, or it has no such part.")
        return drawing.mail(mail[part], "html" if part == "html" else "plain")


def _summary(mail: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": mail["provider_message_id"],
        "event_id": cut(mail["message_id"], 60) if mail["message_id"] else None,
        "subject": cut(mail["subject"] or "(no subject)", 120),
        "received_at": mail["received_at"],
        "recipients": {
            field: cut(", ".join(mail[field]), 300) for field in ("to", "cc", "bcc") if mail[field]
        },
        "attachments": len(mail["attachments"]),
    }
