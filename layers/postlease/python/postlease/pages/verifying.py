"""The page behind a verification's link, its form, and the pages that answer the form."""

from __future__ import annotations

import functools
import re
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

from postlease.pages.documents import Page, document, piece
from postlease.pages.languages import LANGUAGES, Words, words_for

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN = re.compile(r"(?:.*token=)?([A-Za-z0-9_-]{64})", re.DOTALL)


def verify(
    accept_language: str | None = None, *, onward: str | None = None, with_codes: bool = False
) -> Page:
    """The page behind `PUBLIC_URL/verify#token=...`.

    onward is the URL that a person is sent on to afterwards, if any. with_codes decides what the
    page asks for where no script can read the fragment: the pasted link, and before it address and
    code.
    """
    return _verify(words_for(accept_language).language, onward, with_codes)


def verified(accept_language: str | None, *, onward: str | None) -> Page:
    """What the form is answered when the address is proven."""
    words = words_for(accept_language)
    content = _success(words, onward)
    return document(words, title=words.verified_title, content=content)


def refused(
    slug: str,
    accept_language: str | None,
    *,
    onward: str | None,
    with_codes: bool,
    of_link: bool = False,
) -> Page | None:
    """What the form is answered when the problem of that slug stands against it: why, how to go on,
    and the form once more. None for a problem that no person can do anything about. of_link: it was
    the form for the link, where there are two.
    """
    words = words_for(accept_language)
    reasons = _reasons(words, with_codes=with_codes and not of_link)
    if slug not in reasons:
        return None
    title, *paragraphs = reasons[slug]
    content = _told(title, *paragraphs) + _form(words, onward, with_codes=with_codes)
    return document(words, title=title, content=content, form=_form_targets(onward))


def token_in(pasted: str) -> str:
    """The token in a link, or the token itself; empty where there is none.

    Blanks and line ends inside are what mail programs made of a long link, and are dropped.
    """
    match = _TOKEN.fullmatch(unquote("".join(pasted.split())).strip("<>"))
    return match[1] if match else ""


# What it is made from is the deployment's own: there are few of them.
@functools.cache
def _verify(language: str, onward: str | None, with_codes: bool) -> Page:  # noqa: FBT001  cached
    words = LANGUAGES[language]
    form = _form(words, onward, with_codes=with_codes)
    told = {
        f"told_{slug.replace('-', '_')}": _told(*texts)
        for slug, texts in _reasons(words, with_codes=False).items()
        if slug.startswith("token-")
    }
    told["told_verified"] = _success(words, onward)
    told["told_token_invalid"] += form
    content = piece("verify.html", words, form=form, **told)
    return document(
        words,
        title=words.verify_title,
        content=content,
        script="verify.js",
        connect="'self'",
        form=_form_targets(onward),
    )


def _reasons(words: Words, *, with_codes: bool) -> Mapping[str, tuple[str, ...]]:
    """A title and paragraphs for each problem that a person can do something about."""
    invalid = (
        (words.code_title, words.code, words.ask_again)
        if with_codes
        else (words.invalid_title, words.invalid, words.ask_again)
    )
    return {
        "token-invalid": invalid,
        "token-expired": (words.expired_title, words.ask_again),
        "token-superseded": (words.superseded_title, words.superseded, words.ask_again),
        "invalid-field": (words.field_title, words.field),
        "too-many-requests": (words.crowded_title, words.crowded),
        "unavailable": (words.trouble_title, words.again),
        "internal-error": (words.trouble_title, words.again),
    }


def _told(title: str, *paragraphs: str) -> str:
    return f"<h1>{escape(title)}</h1>" + "".join(f"<p>{escape(text)}</p>" for text in paragraphs)


def _success(words: Words, onward: str | None) -> str:
    if onward is None:
        return _told(words.verified_title, words.verified)
    link = f'<a class="button" href="{escape(onward)}">{escape(words.go_on)}</a>'
    return _told(words.verified_title) + link


def _form(words: Words, onward: str | None, *, with_codes: bool) -> str:
    query = f"?{urlencode({'redirect': onward})}" if onward else ""
    # A code may be lost or tried too often: the link of the same mail is always a way.
    names = ("code_form.html", "link_form.html") if with_codes else ("link_form.html",)
    return "".join(piece(name, words, action=f"verify{query}") for name in names)


def _form_targets(onward: str | None) -> str:
    """Where the form may go. Browsers hold a redirect that answers it to the same rule."""
    if onward is None:
        return "'self'"
    place = urlsplit(onward)
    return f"'self' {place.scheme}://{place.netloc}"
