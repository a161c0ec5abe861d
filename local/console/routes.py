"""What only the local stack has, under `/_local/`: its API and a plain page to look at.

Answers no request of another site: the Host must be this machine's, the Origin the console's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from local.console.interface import Interface, problem
from local.console.pages import console_page, mail_response, reset_page
from local.web import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack

PREFIX = "/_local"
_OWN_NAMES = {"127.0.0.1", "localhost", "::1"}


class Console:
    """Answers everything under `/_local/` for one stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._interface = Interface(stack)

    def respond(self, request: Request) -> Response:
        """The answer to one request."""
        if not _is_our_own(request):
            return problem(403, "this console answers requests from this machine's own pages only")
        known = self._methods(request.path.removeprefix(PREFIX).split("/")[1:])
        if known is None:
            return problem(404, "no such address in the console")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in known:
            answer = problem(405, "wrong method")
            return Response(405, answer.body, (*answer.headers, ("allow", ", ".join(known))))
        return known[method](request)

    def _methods(self, parts: list[str]) -> dict[str, Callable[[Request], Response]] | None:
        """What each method does at an address, or None where there is nothing."""
        plain: dict[tuple[str, ...], dict[str, Callable[[Request], Response]]] = {
            (): {"GET": self._page},
            ("",): {"GET": self._page},
            ("reset",): {"GET": lambda _: reset_page()},
            ("api", "inbox"): {"GET": self._interface.inbox, "DELETE": self._interface.clear_inbox},
            ("api", "faults"): {"GET": self._interface.faults, "PUT": self._interface.set_faults},
            ("api", "events"): {"GET": self._interface.events, "PUT": self._interface.set_events},
            ("api", "state"): {"GET": self._interface.state},
        }
        match parts:
            case ["inbox", mail_id, ("html" | "text") as part]:
                return {"GET": lambda _: self._mail(unquote(mail_id), part)}
            case ["api", "inbox", mail_id, "raw"]:
                return {"GET": lambda _: self._interface.raw(unquote(mail_id))}
            case ["api", "invoke", name]:
                return {"POST": lambda request: self._interface.invoke(unquote(name), request)}
            case ["api", "kill", name]:
                return {"POST": lambda _: self._interface.kill(unquote(name))}
        return plain.get(tuple(parts))

    def _page(self, _: Request) -> Response:
        return console_page(self._stack)

    def _mail(self, mail_id: str, part: str) -> Response:
        mail = self._stack.provider.inbox.find(mail_id)
        if mail is None or mail[part] is None:
            return problem(404, "no such mail")
        return mail_response(mail, part)


def _is_our_own(request: Request) -> bool:
    host = urlsplit(f"//{request.header('host') or ''}")
    origin = request.header("origin")
    try:
        name = host.hostname
    except ValueError:
        return False
    return name in _OWN_NAMES and (origin is None or urlsplit(origin).netloc == host.netloc)
