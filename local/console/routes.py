"""Which address under `/_local/` answers what, and to whom.

Answers no request of another site: the Host must be this machine's, the Origin the console's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from local.console import actions, drawing, figures, overview
from local.console.interface import Interface, problem
from local.console.mails import Mails
from local.console.messages import Messages
from local.console.samples import Samples
from local.web import Response
from postlease.errors import DatabaseError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack
    from local.web import Request

PREFIX = "/_local"
_OWN_NAMES = {"127.0.0.1", "localhost", "::1"}

Methods: TypeAlias = "dict[str, Callable[[Request], Response]]"
"""What each method does at an address."""


class Console:
    """Answers everything under `/_local/` for one stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        inbox = stack.provider.inbox
        self._interface = Interface(stack)
        self._actions = actions.Actions(stack)
        self._samples = Samples(stack)
        self._mails = Mails(inbox)
        self._reader = figures.Reader()
        self._messages = Messages(
            lambda: figures.patient(stack.database_url), inbox, self._samples.names
        )

    def respond(self, request: Request) -> Response:
        """The answer to one request."""
        if not _is_our_own(request):
            return problem(403, "this console answers requests from this machine's own pages only")
        parts = [unquote(part) for part in request.path.removeprefix(PREFIX).split("/")[1:]]
        is_page = parts[:1] != ["api"]
        known = self._pages(parts) if is_page else self._api(parts)
        if known is None:
            text = "There is nothing at this address of the console."
            return drawing.unknown(text) if is_page else problem(404, text)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in known:
            answer = problem(405, "wrong method")
            return Response(405, answer.body, (*answer.headers, ("allow", ", ".join(known))))
        try:
            answer = known[method](request)
        except (DatabaseError, UnavailableError) as error:
            text = f"The database did not answer that: {drawing.reason(error)}."
            return drawing.unknown(text, status=503)
        return answer if is_page else drawing.as_it_is(answer)

    def _pages(self, parts: list[str]) -> Methods | None:
        """What there is for people."""
        match parts:
            case [] | [""]:
                return {"GET": self._overview}
            case ["messages"]:
                return {"GET": lambda request: self._messages.listed(request.query)}
            case ["messages", event_id]:
                return {"GET": lambda _: self._messages.shown(event_id)}
            case ["templates", *place]:
                return self._of_templates(place)
            case ["inbox"]:
                return {"GET": lambda request: self._mails.listed(request.query)}
            case ["inbox", mail_id]:
                return {"GET": lambda _: self._mails.shown(mail_id)}
            case ["inbox", mail_id, ("html" | "text") as part]:
                return {"GET": lambda _: self._mails.part(mail_id, part)}
        return self._around(parts)

    def _of_templates(self, place: list[str]) -> Methods | None:
        match place:
            case []:
                return {"GET": lambda _: self._samples.listed()}
            case [name, locale]:
                return {"GET": lambda _: self._samples.shown(name, locale)}
            case [name, locale, sample, "html"]:
                return {"GET": lambda _: self._samples.html(name, locale, sample)}
        return None

    def _around(self, parts: list[str]) -> Methods | None:
        """What the pages need, and the one that stands for an application's own."""
        match parts:
            case ["reset"]:
                return {"GET": lambda _: drawing.page("reset")}
            case ["files", name] if found := drawing.file(name):
                return {"GET": lambda _: found}
            case ["actions", name] if action := self._actions.find(name):
                return {"POST": action}
        return None

    def _api(self, parts: list[str]) -> Methods | None:
        """What there is for programs."""
        api = self._interface
        match parts[1:]:
            case ["inbox"]:
                return {"GET": api.inbox, "DELETE": api.clear_inbox}
            case ["inbox", mail_id, "raw"]:
                return {"GET": lambda _: api.raw(mail_id)}
            case ["faults"]:
                return {"GET": api.faults, "PUT": api.set_faults}
            case ["events"]:
                return {"GET": api.events, "PUT": api.set_events}
            case ["state"]:
                return {"GET": api.state}
            case ["invoke", name]:
                return {"POST": lambda request: api.invoke(name, request)}
            case ["kill", name]:
                return {"POST": lambda _: api.kill(name)}
        return None

    def _overview(self, request: Request) -> Response:
        [done] = parse_qs(request.query).get("done", [None])[:1]
        return overview.show(self._stack, self._reader, actions.said(self._stack, done))


def _is_our_own(request: Request) -> bool:
    try:
        host = urlsplit(f"//{request.header('host') or ''}")
        origin = urlsplit(request.header("origin") or f"//{host.netloc}")
    except ValueError:  # no address at all
        return False
    return host.hostname in _OWN_NAMES and origin.netloc == host.netloc
