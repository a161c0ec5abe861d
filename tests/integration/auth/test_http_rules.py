"""What HTTP promises of the public routes, over a real database: nothing wrong leaves a trace."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from postlease.pages import reference

if TYPE_CHECKING:
    from tests.integration.auth.conftest import Api, World

TABLES = ("users", "verification_tokens", "email_messages", "idempotency_keys", "rate_limits")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ('{"email": "ada@example.com", "email": "eve@example.com"}', "#/email"),
        ('{"email": "ada@example.com", "\\u0065mail": "ada@example.com"}', "#/email"),
        ('\ufeff{"email": "ada@example.com"}', "#"),
        ('{"email": "ada@example.com\\u0000"}', "#/email"),
        ('{"email": "ada@example.com", "locale": "\\udc00"}', "#/locale"),
        ('{"email": "ada@example.com", "locale": NaN}', "#/locale"),
        ('{"email": "ada@example.com", "locale": 1e999}', "#/locale"),
        ('{"email": "ada@example.com", "locale": 100000000000000000000}', "#/locale"),
        ('{"email": "ada@example.com", "locale": ' + "[" * 500 + "]" * 500 + "}", "#"),
    ],
)
@pytest.mark.parametrize("is_base64", [True, False])
def test_a_body_of_two_meanings_is_a_400_and_stores_nothing(
    api: Api, world: World, body: str, named: str, is_base64: bool
) -> None:
    """HTP-07: a doubled member, a byte order mark and their like."""
    text = base64.b64encode(body.encode()).decode() if is_base64 else body
    event = api.sample() | {"body": text, "isBase64Encoded": is_base64}
    answer = api.event(event)
    assert (answer.status, answer.problem) == (400, "invalid-request")
    assert answer.json["errors"][0]["pointer"] == named
    assert {table: world.count(table) for table in TABLES} == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize(
    ("change", "answered"),
    [
        ({}, (400, "invalid-request")),
        ({"body": None}, (400, "invalid-request")),
        ({"body": ""}, (400, "invalid-request")),
        ({"body": "null"}, (400, "invalid-request")),
        ({"body": '"x"'}, (400, "invalid-request")),
        ({"body": "[]"}, (400, "invalid-request")),
        ({"body": "{}"}, (422, "invalid-field")),
    ],
)
def test_a_body_that_says_nothing_is_refused(
    api: Api, world: World, change: dict[str, Any], answered: tuple[int, str]
) -> None:
    """HTP-02."""
    event = {k: v for k, v in api.sample().items() if k != "body"}
    answer = api.event(event | change)
    assert (answer.status, answer.problem) == answered
    assert world.count("users") == 0


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_the_description_asks_no_database(api: Api, environment: Any, path: str) -> None:
    environment(DATABASE_SECRET_ARN="nowhere")
    found, head = api.call("GET", path), api.call("HEAD", path)
    assert (found.status, head.status, head.text) == (200, 200, "")
    assert found.headers == head.headers
    if path == "/docs":
        assert found.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    else:
        assert found.json["openapi"] == "3.1.0"
        assert "/v1/messages/{id}/retry" in found.json["paths"]


PATHS: dict[str, dict[str, Any]] = json.loads(reference.openapi())["paths"]
EVENT = "evt_01JZ8Q4G7N3V5X9B2D6F8H0K1M"
IDS = {"event_id": EVENT, "id": EVENT, "provider": "ses"}


def described(template: str) -> tuple[str, set[str]]:
    """A path of that template, and the methods that it serves."""
    path = re.sub(r"{(\w+)}", lambda match: IDS[match[1]], template)
    return path, {method.upper() for method in PATHS[template]} | {"OPTIONS"}


@pytest.mark.parametrize("template", PATHS)
def test_head_options_and_wrong_methods_ask_no_database_on_any_path(
    api: Api, environment: Any, template: str
) -> None:
    """VER-02, HTP-05: nor does the path with a slash behind it, which is another one."""
    nowhere = {"DATABASE_SECRET_ARN": "nowhere", "PEPPER_SECRET_ARN": "nowhere"}
    environment(**nowhere, RESET_URL="https://app.example.com/new-password")
    path, methods = described(template)
    options = api.call("OPTIONS", path)
    assert (options.status, options.text) == (204, "")
    assert set(options.headers["allow"].split(", ")) == methods
    head = api.call("HEAD", path)
    assert (head.status, head.text) == (200 if "HEAD" in methods else 405, "")
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "get"} - methods:
        answer = api.call(method, path, {})
        assert (answer.status, answer.problem) == (405, "method-not-allowed")
        assert set(answer.headers["allow"].split(", ")) == methods
    for method in methods:
        assert api.call(method, f"{path}/", {}).status == 404
