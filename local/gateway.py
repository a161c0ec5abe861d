"""An HTTP API as API Gateway is one: routes, IAM signatures, CORS, limits, its own errors."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from local.events import BadAnswerError, http_event, http_response
from local.runtime import PAYLOAD_LIMIT, ThrottledError
from local.signatures import fault
from local.web import Request, Response, message_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from local.functions import Function
    from local.template import Cors, Route

logger = logging.getLogger(__name__)

HEADER_LIMIT = 10_240
"""Bytes of all headers together, names included."""
PATIENCE_SECONDS = 25
"""How long a request waits for a free worker; API Gateway gives up after 30 s."""
ROOM = 256
"""Requests that one function has in hand, most of them waiting; whoever comes then is sent away."""


@dataclass(frozen=True, slots=True)
class _Target:
    route: Route
    function: Function
    method: str
    pattern: re.Pattern[str]
    rank: int


class Gateway:
    """Answers requests by the functions that the template's routes name."""

    def __init__(
        self,
        routes: Iterable[Route],
        functions: Mapping[str, Function],
        *,
        cors: Cors | None = None,
        patience: float = PATIENCE_SECONDS,
        room: int = ROOM,
    ) -> None:
        targets = [_target(route, functions[route.function]) for route in routes]
        self._targets = sorted(targets, key=lambda target: target.rank)
        self._cors = cors
        self._patience = patience
        self._rooms = {name: threading.BoundedSemaphore(room) for name in functions}

    def respond(self, request: Request) -> Response:
        """The answer to one request."""
        origin = self._allowed_origin(request)
        if self._cors and request.method == "OPTIONS" and request.header("origin"):
            return Response(204, b"", self._preflight_headers(origin))
        response = self._route(request)
        if origin is None or self._cors is None:
            return response
        headers = [("access-control-allow-origin", origin)]
        if self._cors.exposed:
            headers.append(("access-control-expose-headers", ",".join(self._cors.exposed)))
        return Response(response.status, response.body, (*response.headers, *headers))

    def _route(self, request: Request) -> Response:
        if sum(len(name) + len(value) for name, value in request.headers) > HEADER_LIMIT:
            return message_response(431)
        for target in self._targets:
            match = target.pattern.fullmatch(request.path)
            if match is not None and target.method in {"ANY", request.method}:
                return self._invoke(target, match.groupdict(), request)
        return message_response(404)

    def _invoke(self, target: _Target, found: dict[str, str], request: Request) -> Response:
        if target.route.iam and (reason := fault(request)):
            logger.warning("403 for %s: %s", target.route.key, reason)
            return message_response(403)
        event = http_event(
            request, route_key=target.route.key, parameters=found, signed=target.route.iam
        )
        if len(json.dumps(event)) > PAYLOAD_LIMIT:
            return message_response(413)
        try:
            with self._room(target.route.function):
                result = target.function.invoke(event, patience=self._patience)
        except ThrottledError:
            busy = message_response(503)
            return Response(busy.status, busy.body, (*busy.headers, ("retry-after", "1")))
        if result.error is not None:
            return message_response(500)
        try:
            return http_response(result.value)
        except (BadAnswerError, ValueError):
            return message_response(500)

    @contextlib.contextmanager
    def _room(self, function: str) -> Iterator[None]:
        """A place among the requests of function. ThrottledError at once if all are taken."""
        if not self._rooms[function].acquire(blocking=False):
            raise ThrottledError(function)
        try:
            yield
        finally:
            self._rooms[function].release()

    def _allowed_origin(self, request: Request) -> str | None:
        origin = request.header("origin")
        if self._cors is None or origin is None:
            return None
        return origin if {origin, "*"} & set(self._cors.origins) else None

    def _preflight_headers(self, origin: str | None) -> tuple[tuple[str, str], ...]:
        if self._cors is None or origin is None:
            return ()
        headers = [
            ("access-control-allow-origin", origin),
            ("access-control-allow-methods", ",".join(self._cors.methods)),
            ("access-control-allow-headers", ",".join(self._cors.headers)),
        ]
        if self._cors.max_age is not None:
            headers.append(("access-control-max-age", str(self._cors.max_age)))
        return tuple(headers)


def _target(route: Route, function: Function) -> _Target:
    """Exact paths go before those with a parameter, those before greedy ones, `$default` last."""
    if route.key == "$default":
        return _Target(route, function, "ANY", re.compile(".*", re.DOTALL), 100)
    method, path = route.key.split(" ", 1)
    pattern, rank = "", 1 if method == "ANY" else 0
    for literal, name, greedy in re.findall(r"([^{]+)|\{(\w+)(\+?)\}", path):
        if name:
            pattern += f"(?P<{name}>{'.+' if greedy else '[^/]+'})"
            rank += 20 if greedy else 2
        else:
            pattern += re.escape(unquote(literal))
    return _Target(route, function, method, re.compile(pattern), rank)
