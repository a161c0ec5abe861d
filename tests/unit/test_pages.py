"""The pages ask for nothing but themselves; their policy allows exactly what they hold."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease import pages
from postlease.pages.languages import LANGUAGES, words_for

ONWARD = "https://app.example.com/welcome?a=1&b=2"
RESET = "https://app.example.com/new-password"
TOKEN = "AZq9_-" + "x" * 58
SLUGS = (
    "token-invalid",
    "token-expired",
    "token-superseded",
    "invalid-field",
    "too-many-requests",
    "unavailable",
)


def refusal(slug: str, language: str, *, with_codes: bool = False) -> pages.Page:
    """The page that a form is answered which that problem stands against."""
    page = pages.refused(slug, language, onward=None, with_codes=with_codes)
    assert page
    return page


ALL = {
    f"{name} {language}": page
    for language in LANGUAGES
    for name, page in {
        "verify": pages.verify(language),
        "verify onward": pages.verify(language, onward=ONWARD),
        "verify codes": pages.verify(language, with_codes=True),
        "reset": pages.reset(language, page=RESET),
        "verified": pages.verified(language, onward=None),
        "verified onward": pages.verified(language, onward=ONWARD),
        **{
            f"{slug} {codes}": refusal(slug, language, with_codes=codes)
            for slug in SLUGS
            for codes in (False, True)
        },
    }.items()
}
every_page = pytest.mark.parametrize("page", ALL.values(), ids=ALL)


def policy_of(page: pages.Page) -> dict[str, str]:
    """The directives of the page's policy."""
    return dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))


class Outline(HTMLParser):
    """What a page holds: its elements, and which of them are open at the end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of that name."""
        return [attributes for name, attributes in self.elements if name == tag]


@every_page
def test_the_policy_allows_the_page_s_own_style_and_script_alone(page: pages.Page) -> None:
    policy = policy_of(page)
    for kind in ("style", "script"):
        inline = re.findall(rf"<{kind}>(.*?)</{kind}>", page.html, re.DOTALL)
        digests = [
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in inline
        ]
        assert policy[f"{kind}-src"] == (" ".join(digests) or "'none'")
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"


def test_only_the_page_that_posts_may_connect_and_only_those_with_a_form_may_send_one() -> None:
    for name, page in ALL.items():
        policy = policy_of(page)
        assert policy["connect-src"] == ("'self'" if name.startswith("verify") else "'none'")
        assert (policy["form-action"] == "'none'") == ("<form" not in page.html), name


def test_a_form_may_be_answered_by_the_page_that_a_person_is_sent_on_to() -> None:
    """Browsers hold the redirect after a form to the policy of the form's page."""
    assert policy_of(pages.verify(onward=ONWARD))["form-action"] == "'self' https://app.example.com"
    assert policy_of(pages.verify())["form-action"] == "'self'"


@every_page
def test_a_page_loads_nothing_and_has_no_handler_that_its_policy_would_block(
    page: pages.Page,
) -> None:
    assert not re.search(r"<link|<img|<iframe|\bsrc=|@import|url\(", page.html)
    assert not re.search(r"\son[a-z]+=|\sstyle=|javascript:", page.html)


@every_page
def test_a_page_keeps_its_address_to_itself(page: pages.Page) -> None:
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-frame-options"] == "DENY"
    assert "noindex" in page.headers["x-robots-tag"]
    assert page.headers["vary"] == "accept-language"


@every_page
def test_a_page_is_whole_and_says_its_language(page: pages.Page) -> None:
    outline = Outline(page.html)
    assert outline.open == []
    assert "$" not in page.html.partition("<script>")[0]
    assert outline.of("html") == [{"lang": page.headers["content-language"]}]
    assert len(outline.of("main")) == 1
    assert re.search(r"<title>[^<]{5,}</title>", page.html)


@pytest.mark.parametrize("page", [pages.verify(), pages.reset(None, page=RESET)])
def test_a_page_acts_on_a_click_alone_and_reads_the_fragment_alone(page: pages.Page) -> None:
    script = re.search(r"<script>(.*?)</script>", page.html, re.DOTALL)
    assert script
    acts = re.findall(r"fetch\(|location\.assign\(", script[1])
    assert len(acts) == 1
    assert script[1].index('addEventListener("click"') < script[1].index(acts[0])
    assert "location.hash" in script[1]
    assert not re.search(
        r"location\.search|location\.href|innerHTML|eval\(|storage", script[1], re.IGNORECASE
    )


def test_without_a_script_the_link_is_pasted_or_where_codes_are_on_the_code_written() -> None:
    for page, names, forms in (
        (pages.verify(), ["link"], 1),
        (pages.verify(with_codes=True), ["email", "code", "link"], 2),
    ):
        without = re.search(r"<noscript>(.*?)</noscript>", page.html, re.DOTALL)
        assert without
        outline = Outline(without[1])
        assert outline.of("form") == [{"method": "post", "action": "verify"}] * forms
        assert [field["name"] for field in outline.of("input")] == names
        assert [label["for"] for label in outline.of("label")] == names
        assert [field["id"] for field in outline.of("input")] == names


def test_who_is_told_that_the_link_still_works_finds_where_to_paste_it() -> None:
    page = refusal("token-invalid", "en", with_codes=True)
    assert "The link in the same mail still works." in page.html
    assert [field["name"] for field in Outline(page.html).of("input")] == ["email", "code", "link"]
    pasted = pages.refused("token-invalid", "en", onward=None, with_codes=True, of_link=True)
    assert pasted
    assert "still works" not in pasted.html
    assert "This link is not complete" in pasted.html


def test_where_a_person_is_sent_on_to_is_escaped_and_kept_through_the_form() -> None:
    action = "verify?redirect=https%3A%2F%2Fapp.example.com%2Fwelcome%3Fa%3D1%26b%3D2"
    refused = pages.refused("token-expired", None, onward=ONWARD, with_codes=False)
    assert refused
    for page in (pages.verify(onward=ONWARD), refused):
        assert {form["action"] for form in Outline(page.html).of("form")} == {action}
    [link] = Outline(pages.verified(None, onward=ONWARD).html).of("a")
    assert link["href"] == ONWARD
    assert "&b" not in pages.verified(None, onward=ONWARD).html


def test_a_problem_that_no_person_can_mend_has_no_page() -> None:
    assert pages.refused("payload-too-large", None, onward=None, with_codes=False) is None


def test_the_reset_page_names_the_host_that_it_leads_to() -> None:
    page = pages.reset("de", page=RESET)
    assert "<strong>app.example.com</strong>" in page.html
    assert f'data-page="{RESET}"' in page.html
    assert "<form" not in page.html


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_refusal_says_why_and_what_to_do_in_words_of_its_own(language: str) -> None:
    told = {slug: refusal(slug, language) for slug in SLUGS}
    titles = {re.search(r"<h1>(.*?)</h1>", page.html)[1] for page in told.values()}  # type: ignore[index]
    assert len(titles) == len(SLUGS)
    words = LANGUAGES[language]
    for slug in ("token-invalid", "token-expired", "token-superseded"):
        assert words.ask_again in told[slug].html


def test_no_language_leaves_a_text_out_or_in_another_s_words() -> None:
    english = asdict(LANGUAGES["en"])
    for language, words in LANGUAGES.items():
        texts = asdict(words)
        assert all(texts.values())
        assert words.language == language
        if language != "en":
            assert not {name for name in texts if texts[name] == english[name]}


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("de", "de"),
        ("DE-at", "de"),
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("en-GB,de;q=0.9", "en"),
        ("en;q=0.3, de;q=0.7", "de"),
        ("fr, de;q=0.2", "de"),
        ("fr-FR, *;q=0.5", "en"),
        ("en;q=0.1, *;q=0.5", "de"),
        ("de;q=0, *", "en"),
        ("de;q=0", "en"),
        ("fr", "en"),
        ("d\u00e9, ;;, de;q=x", "en"),
        ("x" * 100_000, "en"),
        ("deutsch", "en"),
    ],
)
def test_a_reader_gets_the_language_that_is_asked_for_most(
    header: str | None, language: str
) -> None:
    assert words_for(header).language == language


@given(st.text())
def test_any_header_has_a_language(header: str) -> None:
    assert words_for(header).language in LANGUAGES


@pytest.mark.parametrize(
    "pasted",
    [
        TOKEN,
        f" {TOKEN}\n",
        f"https://mail.example.com/verify#token={TOKEN}",
        f"<https://mail.example.com/verify#token={TOKEN}>",
        f"https://mail.example.com/verify#token%3D{TOKEN}",
        f"https://mail.example.com/verify?redirect=https%3A%2F%2Fa#token={TOKEN}",
        f"https://mail.example.com/ver\r\n ify#token={TOKEN[:20]}\n{TOKEN[20:]}",
    ],
)
def test_the_token_is_found_in_what_a_person_pastes(pasted: str) -> None:
    """VER-09."""
    assert pages.token_in(pasted) == TOKEN


@pytest.mark.parametrize(
    "pasted",
    ["", "token=", TOKEN[1:], TOKEN + "x", f"#token={TOKEN}x", f"#token={TOKEN}&a", f"#t={TOKEN}"],
)
def test_what_holds_no_whole_token_holds_none(pasted: str) -> None:
    assert pages.token_in(pasted) == ""
