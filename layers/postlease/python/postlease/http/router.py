"""HTTP API events (payload format 2.0) in, HTTP answers out. One room for status codes.

Every request passes one gate, in this order: signature (403, where a router wants one), path
(404), method (405; OPTIONS 204), the client's limits (429, of a POST), then, where a body is
wanted, media type (415), size (413), JSON (400) and fields (422). A trailing slash is another path.
Errors become problem documents (RFC 9457) with a stable `type`. What a route takes and answers is
its `Operation`: the request is read by it, and an answer beyond it is told as a fault of ours.

A router of our own: the resolver of Powertools answers a wrong method with 404, folds the method's
case, and keeps the current event in a class attribute, so that two requests cannot be told apart.
"""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from postlease import problems
from postlease.http.request import Request, read
from postlease.operations import JSON
from postlease.problems import Problem, ProblemError
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from postlease.operations import Operation

_PROBLEM = "application/problem+json"
_ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. body is a JSON value, or text of another media_type; None for no body."""

    status: int
    body: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON


View: TypeAlias = "Callable[[Request], Answer]"
Show: TypeAlias = "Callable[[Problem, Request], Answer | None]"
"""Says a problem to a person; None leaves it a problem document."""


@dataclass(frozen=True, slots=True)
class _Served:
    operation: Operation
    view: View
    show: Show | None


@dataclass(frozen=True, slots=True)
class _Route:
    template: str
    pattern: re.Pattern[str]
    methods: dict[str, _Served]

    @property
    def allow(self) -> str:
        return _allow(self.methods)


class Router:
    """Routes by path template and method. An instance is a Lambda handler's whole body.

    With is_signed it answers nothing but 403 to a request that API Gateway did not check the
    signature of: a route that lost its authorizer serves nobody. signed names the paths, with their
    methods, that another function serves to signed callers: what else is asked there is a 405.
    admit is asked before a POST is read, and raises if it comes too soon.
    """

    def __init__(
        self,
        *,
        is_signed: bool = False,
        signed: Callable[[], Mapping[str, Sequence[str]]] = dict,
        admit: Callable[[Request], None] = lambda _: None,
    ) -> None:
        self._routes: dict[str, _Route] = {}
        self.is_signed = is_signed
        self._signed = signed
        self._admit = admit

    def get(self, template: str, operation: Operation) -> Callable[[View], View]:
        """Serve GET at template, and HEAD too where the answer asks nobody."""
        methods = ("GET", "HEAD") if operation.is_static else ("GET",)
        return self._add(template, methods, operation)

    def post(
        self, template: str, operation: Operation, *, show: Show | None = None
    ) -> Callable[[View], View]:
        """Serve POST at template. show makes the answers that say what is wrong."""
        return self._add(template, ("POST",), operation, show)

    def put(self, template: str, operation: Operation) -> Callable[[View], View]:
        """Serve PUT at template."""
        return self._add(template, ("PUT",), operation)

    def patch(self, template: str, operation: Operation) -> Callable[[View], View]:
        """Serve PATCH at template."""
        return self._add(template, ("PATCH",), operation)

    def delete(self, template: str, operation: Operation) -> Callable[[View], View]:
        """Serve DELETE at template."""
        return self._add(template, ("DELETE",), operation)

    def operations(self) -> Iterator[tuple[str, str, Operation, View]]:
        """Everything that is served: path template, method, operation, view."""
        for route in self._routes.values():
            for method, served in route.methods.items():
                yield route.template, method, served.operation, served.view

    def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one event, always; errors are told and logged without their values."""
        request = read(event)
        try:
            answer = self._answer(request)
        except Exception as error:  # noqa: BLE001  the last line: every error becomes an answer
            answer = _explain(error, request)
        return _write(answer, without_body=request.method == "HEAD")

    def _add(
        self,
        template: str,
        methods: Sequence[str],
        operation: Operation,
        show: Show | None = None,
    ) -> Callable[[View], View]:
        if set(re.findall(r"\{(\w+)\}", template)) != set(operation.names("path")):
            raise LookupError(f"the operation does not describe the parameters of {template}")
        route = self._routes.setdefault(template, _Route(template, _pattern(template), {}))

        def add(view: View) -> View:
            route.methods.update(dict.fromkeys(methods, _Served(operation, view, show)))
            return view

        return add

    def _answer(self, request: Request) -> Answer:
        if self.is_signed and request.principal is None:
            raise ProblemError(problems.FORBIDDEN)
        for route in self._routes.values():
            if match := route.pattern.fullmatch(request.path):
                break
        else:
            return self._answer_for_another(request)
        if request.method == "OPTIONS":
            return Answer(204, headers={"allow": route.allow})
        served = route.methods.get(request.method)
        if served is None:
            raise ProblemError(problems.METHOD_NOT_ALLOWED, headers={"allow": route.allow})
        request = replace(request, path_parameters=match.groupdict(), operation=served.operation)
        try:
            if request.method == "POST":
                self._admit(request)
            answer = served.view(request)
        except Exception as error:  # noqa: BLE001  what the view raises is its operation's
            answer = _explain(error, request, served.show)
        _tell_if_undescribed(answer, request, route.template)
        return answer

    def _answer_for_another(self, request: Request) -> Answer:
        """What the gateway does not bring to the function that serves signed callers."""
        for template, methods in self._signed().items():
            if _pattern(template).fullmatch(request.path):
                headers = {"allow": _allow(methods)}
                if request.method == "OPTIONS":
                    return Answer(204, headers=headers)
                if request.method in methods:
                    raise ProblemError(problems.FORBIDDEN)
                raise ProblemError(problems.METHOD_NOT_ALLOWED, headers=headers)
        raise ProblemError(problems.NOT_FOUND)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)  # text and names in turn
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (f"(?P<{name}>[^/]+)" for name in parts[1::2])
    return re.compile("".join(parts))


def _allow(methods: Iterable[str]) -> str:
    return ", ".join(sorted({*methods, "OPTIONS"}))


def _explain(error: Exception, request: Request, show: Show | None = None) -> Answer:
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
    shown = show(problem, request) if show else None
    return shown or _problem_answer(problem)


def _tell_if_undescribed(answer: Answer, request: Request, template: str) -> None:
    """Log an answer that the operation does not describe: the caller gets it all the same."""
    operation = request.operation
    if answer.media_type == _PROBLEM:
        described = answer.body["type"] in {problem.type for problem in operation.all_problems}
        name = answer.body["type"].rpartition(":")[2]
    else:
        media_type = None if answer.body is None else answer.media_type
        described = operation.has_reply(answer.status, media_type)
        name = str(answer.status)
    if not described:
        logger.error(
            "answer is not described",
            route=f"{request.method} {template}",
            answer=name,
            correlation_id=request.correlation_id,
        )


def _problem_answer(problem: Problem) -> Answer:
    return Answer(
        problem.status,
        problem.document(),
        headers=problem.headers,
        media_type=_PROBLEM,
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
