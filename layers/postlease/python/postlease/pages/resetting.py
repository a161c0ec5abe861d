"""The page that hands a reset's token on to the application, and redeems nothing."""

from __future__ import annotations

import functools
from html import escape
from urllib.parse import urlsplit

from postlease.pages.documents import Page, document, piece
from postlease.pages.languages import LANGUAGES, words_for


def reset(accept_language: str | None, *, page: str) -> Page:
    """The page behind `PUBLIC_URL/reset#token=...`; page is the application's URL."""
    return _reset(words_for(accept_language).language, page)


@functools.cache
def _reset(language: str, page: str) -> Page:
    words = LANGUAGES[language]
    host = urlsplit(page).netloc
    content = piece("reset.html", words, page=escape(page), host=escape(host))
    return document(words, title=words.reset_title, content=content, script="reset.js")
