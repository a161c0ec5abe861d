"""What only the local stack has, under `/_local/`: its API and a plain page to look at.

Answers no request of another site: the Host must be this machine's, the Origin the console's own.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from local.pages import console_page, mail_response, reset_page
from local.provider import MODES, Events, Fault
from local.runtime import ThrottledError
from local.ses_events import EVENT_KINDS
from local.web import Request, Response, json_response, message_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack

PREFIX = "/_local"
_OWN_NAMES = {"127.0.0.1", "localhost", "::1"}
_LONGEST_SECONDS = 3_600


class Console:
    """Answers everything under `/_local/` for one stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def respond(self, request: Request) -> Response:
        """The answer to one request."""
        if not _is_our_own(request):
            return _problem(403, "this console answers requests from this machine's own pages only")
        known = self._methods(request.path.removeprefix(PREFIX).split("/")[1:])
        if known is None:
            return _problem(404, "no such address in the console")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in known:
            answer = _problem(405, "wrong method")
            return Response(405, answer.body, (*answer.headers, ("allow", ", ".join(known))))
        return known[method](request)

    def _methods(self, parts: list[str]) -> dict[str, Callable[[Request], Response]] | None:
        """What each method does at an address, or None where there is nothing."""
        plain: dict[tuple[str, ...], dict[str, Callable[[Request], Response]]] = {
            (): {"GET": self._page},
            ("",): {"GET": self._page},
            ("reset",): {"GET": lambda _: reset_page()},
            ("api", "inbox"): {"GET": self._inbox, "DELETE": self._clear_inbox},
            ("api", "faults"): {"GET": self._faults, "PUT": self._set_faults},
            ("api", "events"): {"GET": self._events, "PUT": self._set_events},
            ("api", "state"): {"GET": self._state},
        }
        match parts:
            case ["inbox", mail_id, ("html" | "text") as part]:
                return {"GET": lambda _: self._mail(unquote(mail_id), part)}
            case ["api", "inbox", mail_id, "raw"]:
                return {"GET": lambda _: self._raw(unquote(mail_id))}
            case ["api", "invoke", name]:
                return {"POST": lambda request: self._invoke(unquote(name), request)}
            case ["api", "kill", name]:
                return {"POST": lambda _: self._kill(unquote(name))}
        return plain.get(tuple(parts))

    def _page(self, _: Request) -> Response:
        return console_page(self._stack)

    def _mail(self, mail_id: str, part: str) -> Response:
        mail = self._stack.provider.inbox.find(mail_id)
        if mail is None or mail[part] is None:
            return _problem(404, "no such mail")
        return mail_response(mail, part)

    def _raw(self, mail_id: str) -> Response:
        content = self._stack.provider.inbox.content(mail_id)
        if content is None:
            return _problem(404, "no such mail, or one too large to be kept")
        return Response(200, content, (("content-type", "message/rfc822"),))

    def _inbox(self, _: Request) -> Response:
        return json_response(200, self._stack.inbox())

    def _clear_inbox(self, _: Request) -> Response:
        self._stack.provider.inbox.clear()
        return Response(204)

    def _invoke(self, name: str, request: Request) -> Response:
        if name not in self._stack.functions:
            return _problem(404, "no such function")
        try:
            event = json.loads(request.body or b"null")
        except ValueError:
            return _problem(400, "the body is not JSON")
        try:
            result = self._stack.run(name, event, patience=0)
        except ThrottledError:
            return message_response(429)
        headers = (("content-type", "application/json"),)
        return Response(200 if result.error is None else 502, result.payload or b"null", headers)

    def _kill(self, name: str) -> Response:
        if name not in self._stack.functions:
            return _problem(404, "no such function")
        return json_response(200, {"killed": self._stack.kill(name)})

    def _faults(self, _: Request) -> Response:
        fault = self._stack.provider.fault
        shown = {"mode": fault.mode, "times": fault.times, "seconds": fault.seconds}
        return json_response(200, {"ses": shown})

    def _set_faults(self, request: Request) -> Response:
        try:
            fault = parse_fault(request.body)
        except ValueError as error:
            return _problem(400, str(error))
        self._stack.provider.set_fault(fault)
        return self._faults(request)

    def _events(self, _: Request) -> Response:
        told = self._stack.provider.events
        shown = {"types": list(told.kinds), "times": told.times, "delay": told.seconds}
        return json_response(200, {"ses": shown})

    def _set_events(self, request: Request) -> Response:
        try:
            events = parse_events(request.body)
        except ValueError as error:
            return _problem(400, str(error))
        self._stack.provider.set_events(events)
        return self._events(request)

    def _state(self, _: Request) -> Response:
        return json_response(200, self._stack.state())


def parse_fault(body: bytes) -> Fault:
    """The fault in a body; ValueError says which field is wrong."""
    ses = _wish(body, '{"ses": {"mode": "..."}}', {"mode", "times", "seconds"})
    mode = ses.get("mode")
    if mode not in MODES:
        raise ValueError(f"ses.mode must be one of {', '.join(MODES)}")
    return Fault(mode, _times(ses), _seconds(ses, "seconds"))


def parse_events(body: bytes) -> Events:
    """The events in a body; ValueError says which field is wrong."""
    ses = _wish(body, '{"ses": {"types": ["..."]}}', {"types", "times", "delay"})
    kinds = ses.get("types")
    if not isinstance(kinds, list) or any(kind not in EVENT_KINDS for kind in kinds):
        raise ValueError(f"ses.types must be a list of {', '.join(EVENT_KINDS)}")
    return Events(tuple(kinds), _times(ses), _seconds(ses, "delay"))


def _wish(body: bytes, form: str, fields: set[str]) -> dict[str, Any]:
    wish = None
    with contextlib.suppress(ValueError):
        wish = json.loads(body)
    ses = wish.get("ses") if isinstance(wish, dict) else None
    if not (isinstance(wish, dict) and isinstance(ses, dict)):
        raise ValueError(f"the body must be {form}")  # noqa: TRY004  one error
    if extra := [*(set(wish) - {"ses"}), *(set(ses) - fields)]:
        raise ValueError(f"unknown field: {extra[0]}")
    return ses


def _times(ses: dict[str, Any]) -> int | None:
    times = ses.get("times")
    if times is not None and (type(times) is not int or times < 1):
        raise ValueError("ses.times must be a whole number above 0, or null")
    return times


def _seconds(ses: dict[str, Any], name: str) -> float:
    seconds = ses.get(name)
    if seconds is None:
        return 0.0
    if type(seconds) not in {int, float} or not 0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"ses.{name} must be a number from 0 to {_LONGEST_SECONDS}")
    return float(seconds)


def _is_our_own(request: Request) -> bool:
    host = urlsplit(f"//{request.header('host') or ''}")
    origin = request.header("origin")
    try:
        name = host.hostname
    except ValueError:
        return False
    return name in _OWN_NAMES and (origin is None or urlsplit(origin).netloc == host.netloc)


def _problem(status: int, detail: str) -> Response:
    return json_response(status, {"message": detail})
