"""The console's API under `/_local/api/`: JSON for programs, and for curl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.console.bodies import document, parse_events, parse_fault
from local.runtime import ThrottledError
from local.web import Request, Response, json_response, message_response

if TYPE_CHECKING:
    from local.stack import Stack


def problem(status: int, detail: str) -> Response:
    """An answer that says what is wrong."""
    return json_response(status, {"message": detail})


class Interface:
    """Answers one stack's API."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def raw(self, mail_id: str) -> Response:
        """A mail as it was sent."""
        content = self._stack.provider.inbox.content(mail_id)
        if content is None:
            return problem(404, "no such mail, or one too large to be kept")
        return Response(200, content, (("content-type", "message/rfc822"),))

    def inbox(self, _: Request) -> Response:
        """Every accepted mail, newest last."""
        return json_response(200, self._stack.inbox())

    def clear_inbox(self, _: Request) -> Response:
        """Forget every mail."""
        self._stack.provider.inbox.clear()
        return Response(204)

    def invoke(self, name: str, request: Request) -> Response:
        """Run a function with the body, or its trigger's event."""
        if name not in self._stack.functions:
            return problem(404, "no such function")
        try:
            event = document(request.body or b"null")
        except ValueError:
            return problem(400, "the body is not JSON")
        try:
            result = self._stack.run(name, event, patience=0)
        except ThrottledError:
            return message_response(429)
        headers = (("content-type", "application/json"),)
        return Response(200 if result.error is None else 502, result.payload or b"null", headers)

    def kill(self, name: str) -> Response:
        """SIGKILL a function's busy workers."""
        if name not in self._stack.functions:
            return problem(404, "no such function")
        return json_response(200, {"killed": self._stack.kill(name)})

    def faults(self, _: Request) -> Response:
        """What the provider does next."""
        fault = self._stack.provider.fault
        shown = {"mode": fault.mode, "times": fault.times, "seconds": fault.seconds}
        return json_response(200, {"ses": shown})

    def set_faults(self, request: Request) -> Response:
        """Decide what it does next."""
        try:
            fault = parse_fault(request.body)
        except ValueError as error:
            return problem(400, str(error))
        self._stack.provider.set_fault(fault)
        return self.faults(request)

    def events(self, _: Request) -> Response:
        """What the provider tells next."""
        told = self._stack.provider.events
        shown = {"types": list(told.kinds), "times": told.times, "delay": told.seconds}
        return json_response(200, {"ses": shown})

    def set_events(self, request: Request) -> Response:
        """Decide what it tells next."""
        try:
            events = parse_events(request.body)
        except ValueError as error:
            return problem(400, str(error))
        self._stack.provider.set_events(events)
        return self.events(request)

    def state(self, _: Request) -> Response:
        """What runs."""
        return json_response(200, self._stack.state())
