"""The pages that a mail's link opens: whole documents, with the policy that they need to run.

A page asks for nothing but itself, changes nothing by being looked at, and keeps the token in the
fragment until a person presses the button.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "text/html; charset=utf-8"

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """One document and the headers without which it must not be served."""

    html: str = field(repr=False)
    headers: Mapping[str, str]


@functools.cache
def verify() -> Page:
    """The page behind `PUBLIC_URL/verify#token=...`."""
    return _page("verify.html")


def _page(name: str) -> Page:
    html = resources.files(__name__).joinpath(name).read_text("utf-8")
    allowed = {"style": "", "script": ""}
    for kind, text in _INLINE.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[kind] += f" 'sha256-{digest}'"
    policy = (
        "default-src 'none'",
        f"script-src{allowed['script']}",
        f"style-src{allowed['style']}",
        "connect-src 'self'",
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
    return Page(html, headers)
