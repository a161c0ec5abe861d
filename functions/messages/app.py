"""Find messages, retry what failed, resolve what is unknown: the API for signed callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import config, database, messages, problems
from postlease.http import Answer, Request, Router
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

settings = config.settings()  # what is missing stops the function here, by the variable's name

routes = Router(is_signed=True)


@routes.get("/v1/messages")
def search(request: Request) -> Answer:
    """Messages, newest first, a page at a time."""
    page = messages.search(database.application(), request.parameters(messages.FILTERS))
    _log("messages searched", request, found=len(page.messages))
    return Answer(200, {"messages": page.messages, "cursor": page.cursor})


@routes.get("/v1/messages/{id}")
def find(request: Request) -> Answer:
    """One message and the history of its attempts."""
    found = messages.find(database.application(), request.path_parameters["id"])
    return _told("message read", request, found)


@routes.post("/v1/messages/{id}/retry")
def retry(request: Request) -> Answer:
    """A failed message, once more."""
    retried = messages.retry(database.application(), request.path_parameters["id"])
    return _told("message retried", request, retried)


@routes.post("/v1/messages/{id}/resolve")
def resolve(request: Request) -> Answer:
    """An unknown outcome, settled by somebody who knows."""
    as_ = request.fields(required=("as",))["as"]
    resolved = messages.resolve(
        database.application(),
        request.path_parameters["id"],
        as_=as_,
        grace=settings.times.unknown_grace,
    )
    return _told("message resolved", request, resolved, resolved_as=as_)


def _told(text: str, request: Request, found: dict[str, Any] | None, **fields: str) -> Answer:
    if found is None:
        raise problems.ProblemError(problems.MESSAGE_UNKNOWN)
    _log(text, request, event_id=found["event_id"], **fields)
    return Answer(200, found)


def _log(text: str, request: Request, **fields: object) -> None:
    """Who did what: ids, and the caller as an account with a user or role."""
    who: dict[str, object] = {
        "principal": request.principal,
        "correlation_id": request.correlation_id,
    }
    logger.info(text, extra=who | fields)


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Lambda's entry: one HTTP request, one answer."""
    return routes(event)
