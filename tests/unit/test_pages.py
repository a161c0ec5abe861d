"""The pages ask for nothing but themselves; their policy allows exactly what they hold."""

from __future__ import annotations

import base64
import hashlib
import re

from postlease import pages


def test_the_policy_allows_the_pages_own_style_and_script_alone() -> None:
    page = pages.verify()
    policy = dict(
        part.split(" ", 1) for part in page.headers["content-security-policy"].split("; ")
    )
    for kind in ("style", "script"):
        inline = re.findall(rf"<{kind}>(.*?)</{kind}>", page.html, re.DOTALL)
        assert len(inline) == 1
        digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    assert not re.search(r"https?:|//[a-z]|<link|<img|<iframe|\bsrc=", pages.verify().html)


def test_the_page_has_no_inline_handler_that_the_policy_would_block() -> None:
    assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:", pages.verify().html)


def test_the_page_posts_on_a_click_alone() -> None:
    script = re.search(r"<script>(.*?)</script>", pages.verify().html, re.DOTALL)
    assert script
    assert script[1].count("fetch(") == 1
    assert script[1].index('addEventListener("click"') < script[1].index("fetch(")
    assert "location.hash" in script[1]
    assert "location.search" not in script[1]


def test_the_page_keeps_its_address_to_itself() -> None:
    page = pages.verify()
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "noindex" in page.headers["x-robots-tag"]
    assert "<noscript>" in page.html
