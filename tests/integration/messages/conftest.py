"""The messages function's world: called with the events that API Gateway sends signed callers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from postlease import config

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

    def __init__(self, app: ModuleType, role: str = "support") -> None:
        self._app = app
        self._role = role

    def by(self, role: str) -> Api:
        """The same function, called by another role."""
        return Api(self._app, role)

    @property
    def principal(self) -> str:
        """Who calls, as the function names it."""
        return f"123456789012:role/{self._role}"

    def event(self, event: dict[str, Any]) -> Reply:
        """The answer to a whole event, signed by the role."""
        text = json.dumps(event).replace("assumed-role/support/", f"assumed-role/{self._role}/")
        answer = self._app.handler(json.loads(text), None)
        return Reply(answer["statusCode"], answer["headers"], answer["body"])

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        /,
        key: str | None = None,
        **query: object,
    ) -> Reply:
        """The answer to one request; body is sent as JSON, key as the Idempotency-Key."""
        event = sample("messages-search") | {"rawPath": path, "rawQueryString": urlencode(query)}
        event["requestContext"] = event["requestContext"] | {
            "http": event["requestContext"]["http"] | {"method": method, "path": path}
        }
        if body is not None:
            event["body"] = json.dumps(body)
            event["headers"] = event["headers"] | {"content-type": "application/json"}
        if key is not None:
            event["headers"] = event["headers"] | {"idempotency-key": key}
        return self.event(event)

    def found(self, **query: object) -> list[dict[str, Any]]:
        """The messages of one page."""
        reply = self.call("GET", "/v1/messages", **query)
        assert reply.status == 200, reply.text
        messages: list[dict[str, Any]] = reply.json["messages"]
        return messages


RECEIPT: dict[str, Any] = {
    "template": "receipt",
    "to": ["ada@example.com"],
    "parameters": {"order_number": "A-1", "total": "12.00"},
}


def send(api: Api, *, key: str | None = None, **members: Any) -> Reply:
    """The answer to a receipt with these members."""
    return api.call("POST", "/v1/messages", RECEIPT | members, key=key)


def batch(api: Api, *messages: dict[str, Any], key: str | None = None) -> Reply:
    """The answer to receipts with these members, asked for together."""
    body = {"messages": [RECEIPT | one for one in messages]}
    return api.call("POST", "/v1/messages/batch", body, key=key)


def number(owner: Connection) -> int:
    """How many messages there are."""
    row = owner.execute("SELECT count(*) AS n FROM postlease.email_messages").fetchone()
    assert row
    return int(row["n"])


def pointers(reply: Reply) -> list[str]:
    """The places that a refusal names."""
    return [error["pointer"] for error in reply.json["errors"]]


@pytest.fixture
def api(
    environment: Callable[..., None], owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> Api:
    """The messages function over empty tables, started in its environment."""
    from functions.messages import app  # noqa: PLC0415  its import reads the environment

    # Imported once in a process, perhaps by a test with an environment of its own.
    monkeypatch.setattr(app, "settings", config.settings())
    return Api(app)
