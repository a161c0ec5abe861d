"""The messages function's world: called with the events that API Gateway sends signed callers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from postlease.database import Connection

EVENTS = Path(__file__).parents[3] / "events"


def sample(name: str) -> dict[str, Any]:
    """One of the sample events."""
    loaded: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text("utf-8"))
    return loaded


@dataclass(frozen=True)
class Reply:
    """One answer of the function."""

    status: int
    headers: dict[str, str]
    text: str = field(repr=False)

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.text)

    @property
    def problem(self) -> str:
        """The slug of the problem that this answer is."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["type"]).removeprefix("urn:postlease:problem:")


class Api:
    """Calls the function's handler as a signed caller."""

    def __init__(self, app: ModuleType) -> None:
        self._app = app

    def event(self, event: dict[str, Any]) -> Reply:
        """The answer to a whole event."""
        answer = self._app.handler(event, None)
        return Reply(answer["statusCode"], answer["headers"], answer["body"])

    def call(self, method: str, path: str, body: object = None, /, **query: object) -> Reply:
        """The answer to one request; body is sent as JSON."""
        event = sample("messages-search") | {"rawPath": path, "rawQueryString": urlencode(query)}
        event["requestContext"] = event["requestContext"] | {
            "http": event["requestContext"]["http"] | {"method": method, "path": path}
        }
        if body is not None:
            event["body"] = json.dumps(body)
            event["headers"] = event["headers"] | {"content-type": "application/json"}
        return self.event(event)

    def found(self, **query: object) -> list[dict[str, Any]]:
        """The messages of one page."""
        reply = self.call("GET", "/v1/messages", **query)
        assert reply.status == 200, reply.text
        messages: list[dict[str, Any]] = reply.json["messages"]
        return messages


@pytest.fixture
def api(environment: Callable[..., None], owner: Connection) -> Api:
    """The messages function over empty tables, started in its environment."""
    from functions.messages import app  # noqa: PLC0415  its import reads the environment

    return Api(app)
