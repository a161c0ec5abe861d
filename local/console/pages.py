"""The console's pages and the mails it shows: plain HTML, all escaped.

No script, but on the page that stands for an application's own, where passwords are reset.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from local.web import Response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.stack import Stack

_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
)
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
_MAIL_POLICY = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'"
)
# Who reads over a shoulder, or a screenshot, learns no whole token.
_RESET_SCRIPT = """
  var token = /^#token=([A-Za-z0-9_-]{64})$/.exec(location.hash);
  document.getElementById("token").textContent =
    token ? token[1].slice(0, 6) + "\\u2026" : "none";
"""
_STYLE = """
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem }
  body { padding: 0 1rem }
  h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
  table { border-collapse: collapse; width: 100% }
  td, th { border-bottom: 1px solid #8884; padding: .3rem .8rem .3rem 0; text-align: left }
  code { overflow-wrap: anywhere }
  @media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } a { color: #8bf } }
"""


def console_page(stack: Stack) -> Response:
    """Queue, functions, schedules and inbox of stack at this moment."""
    queue: dict[str, Any] = stack.queue()
    state = stack.state()
    functions = [
        (f["name"], f["pid"] or "", len(f["busy_pids"]), f["cold_starts"])
        for f in state["functions"]
    ]
    schedules = [(s["function"], s["expression"]) for s in state["schedules"]]
    page = "".join(
        (
            "<h2>Queue</h2>",
            _table(("status", "messages"), queue.items()),
            "<h2>Inbox</h2>",
            _inbox(stack.inbox()),
            "<h2>Functions</h2>",
            _table(("function", "process", "busy", "cold starts"), functions),
            "<h2>Schedules</h2>",
            _table(("function", "expression"), schedules) if schedules else "<p>Off.</p>",
            f"<p>Database <code>{escape(state['database_url'])}</code></p>",
            f"<p>Emulated AWS <code>{escape(state['endpoint_url'])}</code></p>",
        )
    )
    return _response(_document(page), "text/html; charset=utf-8", _PAGE_POLICY)


def reset_page() -> Response:
    """The page of an application that asks for a new password; this one shows what it was given."""
    page = (
        "<h2>A new password</h2><p>Your application's page would stand here. It was handed the "
        "token <code id='token'>none</code>, which the application's server redeems with "
        "<code>POST /v1/password-resets/redeem</code>.</p>"
        f"<script>{_RESET_SCRIPT}</script>"
    )
    digest = base64.b64encode(hashlib.sha256(_RESET_SCRIPT.encode()).digest()).decode()
    policy = f"{_PAGE_POLICY}; script-src 'sha256-{digest}'"
    return _response(_document(page), "text/html; charset=utf-8", policy)


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Postlease, local</title>'
        f"<style>{_STYLE}</style></head><body><h1>Postlease, local</h1>{body}</body></html>"
    )


def mail_response(mail: dict[str, Any], part: str) -> Response:
    """A mail's HTML in a sandbox of its own, or its text."""
    if part == "html":
        return _response(mail["html"], "text/html; charset=utf-8", _MAIL_POLICY)
    return _response(mail["text"], "text/plain; charset=utf-8", _MAIL_POLICY)


def _response(text: str, content_type: str, policy: str) -> Response:
    headers = (("content-type", content_type), ("content-security-policy", policy), *_HEADERS)
    return Response(200, text.encode(errors="replace"), headers)


def _inbox(mails: list[dict[str, Any]]) -> str:
    rows = []
    for mail in reversed(mails):
        address = f"/_local/inbox/{quote(mail['provider_message_id'], safe='')}"
        links = " ".join(
            f'<a href="{escape(address)}/{part}">{part}</a>'
            for part in ("html", "text")
            if mail[part] is not None
        )
        recipients = ", ".join((*mail["to"], *mail["cc"], *mail["bcc"]))
        cells = (mail["received_at"][:19], recipients, mail["subject"] or "")
        rows.append(f"<tr>{_cells(cells)}<td>{links}</td></tr>")
    if not rows:
        return "<p>No mail yet.</p>"
    return f"<table><tr>{_heads(('received', 'to', 'subject', 'read'))}</tr>{''.join(rows)}</table>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f"<table><tr>{_heads(heads)}</tr>{body}</table>"


def _heads(words: Iterable[str]) -> str:
    return "".join(f"<th>{escape(word)}</th>" for word in words)


def _cells(values: Iterable[Any]) -> str:
    return "".join(f"<td>{escape(str(value))}</td>" for value in values)
