"""The API's description is what the routes say, as a document and as a page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import validate

from local import openapi
from postlease import http, problems
from postlease.pages import reference
from tests import deployed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "http-api.md").read_text("utf-8")
API: dict[str, Any] = json.loads(reference.openapi())
OPERATIONS = {
    (path, method.upper()): operation
    for path, methods in API["paths"].items()
    for method, operation in methods.items()
}
PROBLEMS = {
    value.slug: value for value in vars(problems).values() if isinstance(value, problems.Problem)
}
EVERYWHERE = {"method-not-allowed", "forbidden"}
"""What no route answers itself: another method than its own, a path that lost its authorizer."""


@pytest.fixture
def routers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, http.Router]]:
    """The routers of both functions, by tag."""
    for name, value in openapi.PLACEHOLDERS.items():
        monkeypatch.setenv(name, value)
    deployed.forget()
    yield openapi.routers()
    deployed.forget()


def test_both_copies_are_what_the_routes_say(routers: dict[str, http.Router]) -> None:
    text = openapi.written(routers)
    for copy in openapi.COPIES:
        assert copy.read_text("utf-8") == text, "run make openapi"


def test_the_document_is_valid() -> None:
    validate(API)


def test_each_route_is_described_and_each_described_one_is_served(
    routers: dict[str, http.Router],
) -> None:
    served = {
        (template, method): tag
        for tag, router in routers.items()
        for template, method, _, _ in router.operations()
    }
    assert {place: operation["tags"] for place, operation in OPERATIONS.items()} == {
        place: [tag] for place, tag in served.items()
    }
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(names) == len(set(names))


def test_exactly_the_routes_of_the_signed_function_want_a_signature(
    routers: dict[str, http.Router],
) -> None:
    signed = {place for place, operation in OPERATIONS.items() if "security" in operation}
    assert signed == {(path, method) for path, method, _, _ in routers["signed"].operations()}
    assert {(path, m) for path, methods in reference.signed().items() for m in methods} == signed


def test_each_problem_that_a_route_can_answer_is_listed_by_its_type(
    routers: dict[str, http.Router],
) -> None:
    for router in routers.values():
        for template, method, operation, _ in router.operations():
            responses = OPERATIONS[template, method]["responses"]
            for problem in operation.all_problems:
                response = responses[str(problem.status)]
                assert f"`{problem.slug}`" in response["description"]
                if method != "HEAD":
                    schema = response["content"]["application/problem+json"]["schema"]
                    assert problem.type in schema["properties"]["type"]["enum"]


def test_a_page_that_is_the_same_for_everybody_refuses_no_request() -> None:
    for path in ("/verify", "/docs", "/openapi.json"):
        for method in ("GET", "HEAD"):
            assert set(OPERATIONS[path, method]["responses"]) == {"200", "500"}


def test_each_problem_belongs_to_a_route_and_stands_in_the_guide() -> None:
    text = reference.openapi()
    for slug, problem in PROBLEMS.items():
        assert f"`{slug}`" in GUIDE
        assert slug in EVERYWHERE or f'"{problem.type}"' in text


def test_each_route_stands_in_the_guide() -> None:
    for path, method in OPERATIONS:
        assert method == "HEAD" or re.search(rf"`{method} {re.escape(path)}`", GUIDE), (
            method,
            path,
        )


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the links of whichever kind."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what matters."""
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "srcset", "action", "data"}:
                self.links.append(value or "")
            assert not name.startswith("on")
            assert name != "style"

    def handle_data(self, data: str) -> None:
        """Keep all text."""
        self.text += data


def test_the_page_shows_every_route_with_every_member_and_problem() -> None:
    shown = Elements(reference.page().html)
    for (path, method), operation in OPERATIONS.items():
        if method == "HEAD":
            continue
        assert f"{method} {path}" in shown.text
        assert operation["operationId"] in shown.ids
    for slug in set(PROBLEMS) - EVERYWHERE:
        assert slug in shown.text
    for word in (
        *("Idempotency-Key", "created_after", "verification.event_id", "messages[].reason"),
        *("reply_to.email", "messages[].to[].name", "messages[].attachments[].storage_ref"),
        "string or object or null",
    ):
        assert word in shown.text


def test_the_page_needs_nothing_but_itself() -> None:
    page = reference.page()
    shown = Elements(page.html)
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(shown.tags)
    for link in shown.links:
        assert link == "openapi.json" or link.removeprefix("#") in shown.ids, link
    assert len(shown.ids) == len(set(shown.ids))
    assert shown.tags.count("h1") == shown.tags.count("main") == 1
    assert '<html lang="en">' in page.html


def test_the_page_allows_its_own_style_and_nothing_else() -> None:
    page = reference.page()
    [style] = re.findall(r"<style>(.*?)</style>", page.html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert page.headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    assert page.headers["referrer-policy"] == "no-referrer"


def test_the_document_is_served_as_it_stands() -> None:
    assert openapi.COPIES[1].read_text("utf-8") == reference.openapi()
    assert urllib.parse.urlsplit(API["servers"][0]["url"]).netloc == ""
