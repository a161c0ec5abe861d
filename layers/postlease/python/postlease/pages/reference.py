"""The API's description, and the page to read it: one document without script or outside asset."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from postlease import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LABELS = {"format": "", "pattern": "pattern ", "default": "default "}


@functools.cache
def openapi() -> str:
    """The OpenAPI document."""
    return _read("openapi.json")


@functools.cache
def signed() -> Mapping[str, tuple[str, ...]]:
    """The path templates that are served to signed callers alone, with their methods."""
    paths = json.loads(openapi())["paths"].items()
    return {
        path: tuple(method.upper() for method in methods)
        for path, methods in paths
        if all("security" in operation for operation in methods.values())
    }


@functools.cache
def page() -> pages.Page:
    """The page, with the policy that it needs."""
    style = _read("reference.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    headers = {
        "content-security-policy": "; ".join(policy),
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
    }
    return pages.Page("".join(_document(json.loads(openapi()), style)), headers)


def _read(name: str) -> str:
    return resources.files("postlease.pages").joinpath(name).read_text("utf-8")


def _document(api: Mapping[str, Any], style: str) -> Iterator[str]:
    info = api["info"]
    title = f"{escape(info['title'])} API {escape(info['version'])}"
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#content">Skip to the routes</a>\n'
        f"<header>\n<h1>{title}</h1>\n<p>{_prose(info['description'])}</p>\n"
        '<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>\n</header>\n'
    )
    operations = list(_operations(api))
    yield '<nav aria-label="Routes">\n<ul>\n'
    for name, method, path, operation in operations:
        yield (
            f'<li><a href="#{name}"><code>{method} {escape(path)}</code></a>'
            f" {_prose(operation['summary'])}</li>\n"
        )
    yield '</ul>\n</nav>\n<main id="content" tabindex="-1">\n'
    for tag in api["tags"]:
        yield f"<h2>{escape(tag['name'].capitalize())} routes</h2>\n"
        yield f"<p>{_prose(tag['description'])}</p>\n"
        for name, method, path, operation in operations:
            if tag["name"] in operation["tags"]:
                yield from _section(name, method, path, operation)
    yield "</main>\n</body>\n</html>\n"


def _operations(api: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if method != "head":
                yield operation["operationId"], method.upper(), path, operation


def _section(name: str, method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section aria-labelledby="{name}">\n'
    yield f'<h3 id="{name}"><code>{method} {escape(path)}</code></h3>\n'
    yield f"<p>{_prose(operation['summary'])} {_prose(operation.get('description', ''))}</p>\n"
    if parameters := operation.get("parameters"):
        rows = [
            (_code(one["name"]), escape(one["in"]), _kind(one["schema"]), _note(one))
            for one in parameters
        ]
        yield from _table("Parameters", ("name", "in", "value", ""), rows, of=name)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        for number, schema in enumerate(content["schema"].get("oneOf", [content["schema"]])):
            members = list(_members(schema))
            of = f"{name} {number + 1}" if number else name
            yield from _table(f"Body: {media_type}", ("member", "value", ""), members, of=of)
    yield from _responses(name, operation["responses"])
    yield "</section>\n"


def _responses(name: str, responses: Mapping[str, Any]) -> Iterator[str]:
    problems = []
    for status, response in responses.items():
        note = _prose(response["description"])
        if status >= "400":
            retry = "yes" if "retry-after" in response.get("headers", {}) else ""
            problems.append((_code(status), note, retry))
            continue
        yield f"<h4>{status}</h4>\n<p>{note}</p>\n"
        rows = [
            (_code(header), f"header, {_kind(one['schema'])}", _prose(one["description"]))
            for header, one in response.get("headers", {}).items()
        ]
        for media_type, content in response.get("content", {}).items():
            rows += list(_members(content["schema"]))
            yield f"<p>{_code(media_type)}</p>\n"
        if rows:
            yield from _table("", ("member", "value", ""), rows, of=f"{name} {status}")
    yield from _table("Refusals", ("status", "problem types", "Retry-After"), problems, of=name)


def _members(schema: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str, str]]:
    """One row for each member, those of members too."""
    for name, inner in schema.get("properties", {}).items():
        optional = "" if name in schema["required"] else "optional, "
        yield _code(before + name), optional + _kind(inner), _note(inner)
        for one in _alternatives(inner):
            yield from _members(one, f"{before}{name}.")
            for element in _alternatives(one.get("items", {})):
                yield from _members(element, f"{before}{name}[].")


def _alternatives(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return schema.get("oneOf") or [schema]


def _kind(schema: Mapping[str, Any]) -> str:
    """What a value may be, in few words."""
    kinds = [one.get("type", "") for one in _alternatives(schema)]
    words = [" or ".join(" or ".join(one) if isinstance(one, list) else one for one in kinds)]
    if "enum" in schema:
        words = [" ".join(_code(word) for word in schema["enum"] if word is not None)]
        words += ["or null"] if None in schema["enum"] else []
    words += [
        label + (_code(schema[name]) if label else escape(str(schema[name])))
        for name, label in _LABELS.items()
        if name in schema
    ]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        words.append(f"from {low} to {high}")
    if examples := schema.get("examples"):
        words.append(f"such as {_code(examples[0])}")
    return ", ".join(word for word in words if word)


def _note(described: Mapping[str, Any]) -> str:
    return _prose(described.get("description", ""))


def _code(text: object) -> str:
    return f"<code>{escape(str(text))}</code>"


def _prose(text: str) -> str:
    """Text as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(
    title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, of: str
) -> Iterator[str]:
    """A table that can be scrolled by keyboard; of tells it from all others of the page."""
    if title:
        yield f"<h4>{escape(title)}</h4>\n"
    label = escape(f"{title or 'Members'}, {of}")
    yield f'<div class="table" role="region" tabindex="0" aria-label="{label}">\n'
    yield "<table>\n<thead><tr>"
    yield "".join(f'<th scope="col">{head}</th>' if head else "<td></td>" for head in heads)
    yield "</tr></thead>\n<tbody>\n"
    for first, *rest in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        yield f'<tr><th scope="row">{first}</th>{cells}</tr>\n'
    yield "</tbody>\n</table>\n</div>\n"
