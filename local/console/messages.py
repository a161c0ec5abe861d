"""Messages: a list with filters, a page at a time, and the whole life of one.

What is shown is what the API for signed callers answers, told as `ops show` tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import parse_qsl, urlencode

from local.console import drawing
from ops import timeline
from postlease import gate, messages
from postlease.database import Database
from postlease.errors import InvalidInputError, MalformedInputError
from postlease.model import FailureReason, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.inbox import Inbox
    from local.web import Response

PAGE = 50
_FILTERS = ("status", "reason", "template", "unknown")


class Messages:
    """The pages about messages in the database behind url; names are templates to filter by."""

    def __init__(
        self, url: Callable[[], str], inbox: Inbox, names: Callable[[], list[str]]
    ) -> None:
        self._url = url
        self._inbox = inbox
        self._names = names

    def listed(self, query: str) -> Response:
        """A page of the list that query asks for; an event id in it leads to its message."""
        asked = {name: value.strip() for name, value in parse_qsl(query) if value.strip()}
        if event_id := asked.get("event_id"):
            return drawing.elsewhere(f"/_local/messages/{drawing.segment(event_id)}")
        filters = {name: asked[name] for name in _FILTERS if name in asked}
        parameters = filters | {"limit": str(PAGE)}
        if "cursor" in asked:
            parameters["cursor"] = asked["cursor"]
        try:
            found = self._read(lambda database: messages.search(database, parameters))
        except (InvalidInputError, MalformedInputError) as error:
            return drawing.unknown(f"No such list: {error}.", status=400)
        older = urlencode(filters | {"cursor": found.cursor}) if found.cursor else None
        return drawing.page(
            "messages",
            messages=found.messages,
            filters=filters,
            statuses=get_args(Status),
            reasons=get_args(FailureReason),
            templates=self._names(),
            older=older,
            newest=urlencode(filters) if "cursor" in asked else None,
        )

    def shown(self, event_id: str) -> Response:
        """One message's life."""
        try:
            message = self._read(lambda database: messages.find(database, event_id))
        except MalformedInputError:
            return drawing.unknown(
                "That is no event id: one is `evt_` and 26 characters, or a UUID."
            )
        if message is None:
            return drawing.unknown(
                "There is no message of that id: there never was, or its time of retention is over."
            )
        return drawing.page(
            "message",
            message=message,
            about=timeline.about(message),
            history=timeline.history(message),
            now=timeline.now(message, self._gate() if message["status"] == "pending" else None),
            attempts=_attempts(message),
            mails=self._inbox.of(message["event_id"]),
        )

    def _gate(self) -> dict[str, Any] | None:
        """A gate that keeps mail from leaving."""
        noted = self._read(lambda database: gate.read(database.connection()))
        shut = (one for one in noted if one.state != "open")
        return next(
            (
                {"provider": one.provider, "state": one.state, "reason": one.close_reason}
                for one in shut
            ),
            None,
        )

    def _read(self, ask: Callable[[Database], Any]) -> Any:
        """What ask reads, by a connection of its own: pages are answered in many threads."""

        def conninfo(*, refresh: bool) -> str:
            del refresh  # there is no secret to read anew
            return self._url()

        database = Database(conninfo)
        try:
            return ask(database)
        finally:
            database.discard()


def _attempts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Every attempt that is kept, the one under way last."""
    under_way = {"ended_at": None, "outcome": None, "code": None, "provider_message_id": None}
    claim = message["claim"]
    running = [claim | under_way | {"refunded": None}] if claim else []
    return [*message["attempts"], *running]
