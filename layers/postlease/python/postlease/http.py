"""HTTP API events (payload format 2.0) in, HTTP answers out. One room for status codes.

Every request passes one gate, in this order: signature (403, where a router wants one), path
(404), method (405; OPTIONS 204), then, where a body is wanted, size (413), media type (415), JSON
(400) and fields (422). A trailing slash is another path. Errors become problem documents (RFC 9457)
with a stable `type`.

A router of our own: the resolver of Powertools answers a wrong method with 404, folds the method's
case, and keeps the current event in a class attribute, so that two requests cannot be told apart.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

from postlease import problems, strict_json
from postlease.errors import InvalidInputError, MalformedInputError
from postlease.problems import Problem, ProblemError
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAXIMUM_BODY_BYTES = 64 * 1024

_JSON_TYPE = re.compile(r"application/(json|[a-z0-9!#$&^_.-]+\+json)")
_UTF8 = re.compile(r'charset="?(utf-8|us-ascii)"?')
_ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body not read yet. header names are lower case.

    principal is who signed it, as API Gateway checked: account and user or role, without the name
    of a session; None for an unsigned request.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    path_parameters: Mapping[str, str]
    body: str | None = field(repr=False)
    is_base64: bool
    correlation_id: str
    query: str = field(default="", repr=False)
    principal: str | None = None

    def header(self, name: str) -> str | None:
        """The header's value, whatever its case; repeated ones are joined with commas."""
        return self.headers.get(name.lower())

    def parameters(self, known: Sequence[str]) -> dict[str, str]:
        """The parameters of the query, decoded.

        Raises MalformedInputError for one that is not known or stands twice.
        """
        found: dict[str, str] = {}
        for name, value in parse_qsl(self.query, keep_blank_values=True):
            if name not in known:
                raise MalformedInputError("query", "holds a parameter that is not known")
            if name in found:
                raise MalformedInputError(name, "stands twice")
            found[name] = value
        return found

    def fields(self, *, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, str]:
        """The text members of the JSON object in the body; an optional one may be absent or null.

        Raises ProblemError (413, 415), MalformedInputError for a body that is no JSON object or has
        a member beyond those named, InvalidInputError for a member that is missing or no text.
        """
        _check_media_type(self)
        value = strict_json.parse(_content(self))
        if not isinstance(value, dict):
            raise MalformedInputError("", "the body must be a JSON object")
        for name in value:
            if name not in required and name not in optional:
                raise MalformedInputError(strict_json.child("", name), "this member is not known")
        found = {name: inner for name, inner in value.items() if inner is not None}
        for name in required:
            if name not in found:
                raise InvalidInputError(strict_json.child("", name), "is required")
        for name, inner in found.items():
            if not isinstance(inner, str):
                raise InvalidInputError(strict_json.child("", name), "must be text")
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. body is a JSON value, or text of another media_type; None for no body."""

    status: int
    body: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


View: TypeAlias = "Callable[[Request], Answer]"


@dataclass(frozen=True, slots=True)
class _Route:
    template: str
    pattern: re.Pattern[str]
    methods: dict[str, View]

    @property
    def allow(self) -> str:
        return ", ".join(sorted({*self.methods, "OPTIONS"}))


class Router:
    """Routes by path template and method. An instance is a Lambda handler's whole body.

    With is_signed it answers nothing but 403 to a request that API Gateway did not check the
    signature of: a route that lost its authorizer serves nobody.
    """

    def __init__(self, *, is_signed: bool = False) -> None:
        self._routes: dict[str, _Route] = {}
        self._is_signed = is_signed

    def get(self, template: str, *, is_static: bool = False) -> Callable[[View], View]:
        """Serve GET at template, and HEAD too where the answer is the same for everybody."""
        return self._add(template, ("GET", "HEAD") if is_static else ("GET",))

    def post(self, template: str) -> Callable[[View], View]:
        """Serve POST at template."""
        return self._add(template, ("POST",))

    def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one event, always; errors are told and logged without their values."""
        request = _read(event)
        try:
            answer = self._answer(request)
        except Exception as error:  # noqa: BLE001  the last line: every error becomes an answer
            answer = _explain(error, request)
        return _write(answer, without_body=request.method == "HEAD")

    def _add(self, template: str, methods: Sequence[str]) -> Callable[[View], View]:
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template))
        route = self._routes.setdefault(template, _Route(template, pattern, {}))

        def add(view: View) -> View:
            route.methods.update(dict.fromkeys(methods, view))
            return view

        return add

    def _answer(self, request: Request) -> Answer:
        if self._is_signed and request.principal is None:
            raise ProblemError(problems.FORBIDDEN)
        for route in self._routes.values():
            if match := route.pattern.fullmatch(request.path):
                break
        else:
            raise ProblemError(problems.NOT_FOUND)
        if request.method == "OPTIONS":
            return Answer(204, headers={"allow": route.allow})
        view = route.methods.get(request.method)
        if view is None:
            raise ProblemError(problems.METHOD_NOT_ALLOWED, headers={"allow": route.allow})
        return view(replace(request, path_parameters=match.groupdict()))


def _read(event: Mapping[str, Any]) -> Request:
    """The request in an event; emulators differ in header case, gateways in stage prefix."""
    context = event.get("requestContext") or {}
    path = str(event.get("rawPath") or "/")
    stage = context.get("stage") or "$default"
    if stage != "$default" and path.startswith(f"/{stage}/"):
        path = path.removeprefix(f"/{stage}")
    headers: dict[str, str] = {}
    for name, value in (event.get("headers") or {}).items():
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known},{value}" if known is not None else str(value)
    return Request(
        method=str((context.get("http") or {}).get("method") or ""),
        path=path,
        headers=headers,
        path_parameters={},
        body=event.get("body"),
        is_base64=bool(event.get("isBase64Encoded")),
        correlation_id=str(context.get("requestId") or ""),
        query=str(event.get("rawQueryString") or ""),
        principal=_principal((context.get("authorizer") or {}).get("iam") or {}),
    )


def _principal(identity: Mapping[str, Any]) -> str | None:
    """`account:user/name`, `account:role/name` or the like, out of who signed."""
    parts = str(identity.get("userArn") or "").split(":", 5)
    if len(parts) != 6 or not parts[4]:
        return None
    kind, _, name = parts[5].partition("/")
    if kind == "assumed-role":
        # Behind the role stands the session, which people name after themselves.
        kind, name = "role", name.partition("/")[0]
    if "@" in name:
        name = str(identity.get("callerId") or "").partition(":")[0]
    return f"{parts[4]}:{kind}/{name}" if name else f"{parts[4]}:{kind}"


def _check_media_type(request: Request) -> None:
    """JSON or nothing said; a form that a foreign page could post is refused."""
    stated = request.header("content-type")
    encoding = request.header("content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        raise ProblemError(problems.UNSUPPORTED_MEDIA_TYPE)
    if stated is None or not stated.strip():
        return
    media_type, *parameters = (part.strip().lower() for part in stated.split(";"))
    charsets = [part for part in parameters if part.startswith("charset=")]
    if not _JSON_TYPE.fullmatch(media_type) or not all(map(_UTF8.fullmatch, charsets)):
        raise ProblemError(problems.UNSUPPORTED_MEDIA_TYPE)


def _content(request: Request) -> bytes:
    """The body's bytes. The gateway encodes what it does not know to be text as base64."""
    if not request.body:
        raise MalformedInputError("", "a JSON body is required")
    if len(request.body) > MAXIMUM_BODY_BYTES * 2:
        raise ProblemError(problems.PAYLOAD_TOO_LARGE)
    try:
        if request.is_base64:
            content = base64.b64decode(request.body, validate=True)
        else:
            content = request.body.encode()
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise MalformedInputError("", "the body's encoding is broken") from None
    if len(content) > MAXIMUM_BODY_BYTES:
        raise ProblemError(problems.PAYLOAD_TOO_LARGE)
    return content


def _explain(error: Exception, request: Request) -> Answer:
    problem = problems.explain(error)
    if problem.status >= 500:
        # The text of an error we did not foresee may hold anything; type and place do not.
        place = traceback.extract_tb(error.__traceback__)[-1]
        logger.error(
            "request failed",
            error=type(error).__name__,
            reason=problems.reason(error),
            at=f"{place.filename.rpartition('/')[2]}:{place.lineno}",
            correlation_id=request.correlation_id,
        )
    return _problem_answer(problem)


def _problem_answer(problem: Problem) -> Answer:
    return Answer(
        problem.status,
        problem.document(),
        headers=problem.headers,
        media_type="application/problem+json",
    )


def _write(answer: Answer, *, without_body: bool) -> dict[str, Any]:
    headers = {**_ALWAYS, **answer.headers}
    body = ""
    if answer.body is not None:
        headers["content-type"] = answer.media_type
        # ASCII: whatever a caller sent us in a name comes back escaped.
        body = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
    return {
        "statusCode": answer.status,
        "headers": headers,
        "body": "" if without_body else body,
        "isBase64Encoded": False,
    }
