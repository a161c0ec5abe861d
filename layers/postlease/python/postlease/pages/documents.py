"""Pieces of HTML to one whole document, and the headers without which it must not be served."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import asdict, dataclass, field
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.pages.languages import Words

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """One document and the headers without which it must not be served."""

    html: str = field(repr=False)
    headers: Mapping[str, str]


@functools.cache
def source(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def piece(name: str, words: Words, **values: str) -> str:
    """The HTML of a file, with the words escaped and the values, which are HTML already."""
    texts = {key: escape(text) for key, text in asdict(words).items()}
    return Template(source(name)).substitute(texts | values)


def document(
    words: Words, *, title: str, content: str, script: str = "", connect: str = "", form: str = ""
) -> Page:
    """The page around content. script is a file's name; connect and form are what the policy lets
    it fetch from and send forms to, nothing if empty.
    """
    html = piece(
        "layout.html",
        words,
        title=escape(title),
        style=source("style.css"),
        content=content,
        script=f"<script>{source(script)}</script>" if script else "",
    )
    allowed: dict[str, list[str]] = {"style": [], "script": []}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[kind].append(f"'sha256-{digest}'")
    nothing = "'none'"
    policy = {
        "default-src": nothing,
        "script-src": " ".join(allowed["script"]) or nothing,
        "style-src": " ".join(allowed["style"]) or nothing,
        "connect-src": connect or nothing,
        "base-uri": nothing,
        "form-action": form or nothing,
        "frame-ancestors": nothing,
    }
    return Page(
        html,
        {
            "content-language": words.language,
            "content-security-policy": "; ".join(
                f"{directive} {sources}" for directive, sources in policy.items()
            ),
            "referrer-policy": "no-referrer",
            # Not stored anywhere; whoever stores it all the same is told what it depends on.
            "vary": "accept-language",
            "x-frame-options": "DENY",
            "x-robots-tag": "noindex, nofollow",
        },
    )
