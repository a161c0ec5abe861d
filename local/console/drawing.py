"""Pages out of the folder `html`: filled in, escaped, under a policy that lets in nothing else."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from local.console import charts, words
from local.web import Response
from ops import timeline

FOLDER = Path(__file__).with_name("html")

_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    # None at all would hide from us that a form is our own.
    ("referrer-policy", "same-origin"),
)
# No such schema, table, column, function.
_STRANGE = {"3F000", "42P01", "42703", "42883"}
_NO_PAGE = (("content-security-policy", "sandbox; default-src 'none'"),)
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
MAIL_POLICY = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; frame-ancestors 'self'; base-uri 'none'"
)
_FILES = {"console.css": "text/css", "console.js": "text/javascript", "reset.js": "text/javascript"}


def page(name: str, *, status: int = 200, **values: Any) -> Response:
    """The page of that name, filled in; values are escaped wherever they stand."""
    text = _pages().get_template(f"{name}.html").render(values)
    return respond(status, text, "text/html; charset=utf-8", PAGE_POLICY)


def unknown(text: str, *, status: int = 404) -> Response:
    """A page that says in words what there is not, or what cannot be."""
    return page("unknown", status=status, text=text)


def reason(error: Exception) -> str:
    """Why a database gave no answer, in words."""
    is_strange = getattr(error, "sqlstate", None) in _STRANGE
    return f"its schema is not ours, see the log of migrate ({error})" if is_strange else str(error)


def mail(text: str, kind: str) -> Response:
    """A mail's HTML, or its text, in a sandbox of its own: nothing in it is run or fetched."""
    return respond(200, text, f"text/{kind}; charset=utf-8", MAIL_POLICY)


def file(name: str) -> Response | None:
    """A style sheet or script of the pages, or None."""
    if name not in _FILES:
        return None
    text = (FOLDER / name).read_text("utf-8")
    return respond(200, text, f"{_FILES[name]}; charset=utf-8", "default-src 'none'")


def respond(status: int, text: str, content_type: str, policy: str) -> Response:
    """text as an answer that is not kept and does nothing but what policy lets it."""
    headers = (("content-type", content_type), ("content-security-policy", policy), *_HEADERS)
    return Response(status, text.encode(errors="replace"), headers)


def as_it_is(answer: Response) -> Response:
    """An answer for programs, of which no browser makes a page, and that none keeps."""
    return Response(answer.status, answer.body, (*answer.headers, *_HEADERS, *_NO_PAGE))


def elsewhere(address: str) -> Response:
    """What sends a browser on, by GET."""
    return Response(303, b"", (("location", address), *_HEADERS))


def segment(text: str) -> str:
    """text as one segment of an address."""
    return quote(text, safe="")


@functools.cache
def _pages() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clock": words.clock,
        "cut": words.cut,
        "exact": words.exact,
        "document": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        "moment": words.moment,
        "seconds": words.seconds,
        "segment": segment,
        "size": words.size,
        "span": words.span,
    }
    made.globals |= {"many": words.many, "state": timeline.state, "charts": charts}
    return made
