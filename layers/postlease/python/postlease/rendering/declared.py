"""What a template says of itself in template.json, and the parameters that it refuses. Pure.

    {"from": "Shop <shop@example.com>", "reply_to": "care@example.com",
     "parameters": {"name": {"max_length": 80}, "link": {"url": true}}}

A parameter's declaration covers every text beneath it, the names of members too. A text that is
not declared may be LONGEST_TEXT characters long and hold no URL: mail programs make links of
whatever looks like one, and such a link would stand in a mail that we sign (TPL-09).

What looks like one: `scheme://`, `www.` and `host.tld/`, with a port or a full stop before the
slash too. Not a bare host: `booking.com` is the name of a company as well. A parameter that is to
be safe from that as well wants a short max_length.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from postlease import addresses, strict_json
from postlease.errors import InvalidInputError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_TEXT = 10_000

_URL = re.compile(
    r"[\w+.-]://|\bwww\.\w|[^\W_]\.[^\W\d_][\w-]*[^\W_]\.?(?::\d{1,5})?/", re.IGNORECASE
)
_OTHER_DOTS = str.maketrans(dict.fromkeys("\u3002\uff61", "."))
"""Full stops of host names that NFKC leaves alone (UTS 46)."""

_UNDER_OTHERS = frozenset({"Cf", "Mn", "Mc", "Me"})
"""Invisible characters, and marks such as vowel signs: a letter is still one with them."""

_Place: TypeAlias = tuple["_Place", str] | None
"""The way to a value, innermost name first: only what is refused pays for a pointer."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the texts of one parameter may be."""

    max_length: int = LONGEST_TEXT
    url: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """The content of a template.json; the empty one where there is none."""

    sender: addresses.Sender | None = None
    reply_to: addresses.Sender | None = None
    parameters: Mapping[str, Allowance] = field(default_factory=dict)

    def refusals(self, parameters: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
        """Code, JSON pointer and a sentence for each text that parameters may not hold.

        No sentence and no pointer repeats a value, or a name that could be an address.
        """
        for name, value in parameters.items():
            allowance = self.parameters.get(name, Allowance())
            for place, text in _texts(value, ((None, "parameters"), name)):
                if len(text) > allowance.max_length:
                    detail = f"the text is longer than {allowance.max_length} characters"
                    yield "text_too_long", _pointer(place), detail
                if not allowance.url and holds_url(text):
                    detail = "the text holds a URL, and the template declares none here"
                    yield "url_not_declared", _pointer(place), detail


def read(text: str, file: str) -> Declaration:
    """The declaration in file's text. TemplateError `declaration_invalid` names what is wrong."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TemplateError("declaration_invalid", f"{file}{line}: not JSON") from None
    try:
        return _declaration(content)
    except InvalidInputError as error:
        where = f" at {error.pointer}" if error.pointer else ""
        raise TemplateError("declaration_invalid", f"{file}{where}: {error.detail}") from None


def holds_url(text: str) -> bool:
    """Whether a mail program could make a link of a part of text that leads somewhere certain."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_OTHER_DOTS)
        text = "".join(c for c in text if unicodedata.category(c) not in _UNDER_OTHERS)
    return _URL.search(text) is not None


def pointers(parameters: Mapping[str, Any], value: Any) -> list[str]:
    """Where in parameters this very object stands: null, true and false may at several places."""
    return [
        _pointer(place)
        for name, top in parameters.items()
        for place, inner in _values(top, ((None, "parameters"), name))
        if inner is value
    ]


def _declaration(content: Any) -> Declaration:
    _members(content, "", {"from", "reply_to", "parameters"})
    sender = reply_to = None
    if "from" in content:
        sender = addresses.parse_sender(_text(content["from"], "/from"), pointer="/from")
    if "reply_to" in content:
        text = _text(content["reply_to"], "/reply_to")
        reply_to = addresses.parse_sender(text, pointer="/reply_to")
    declared = content.get("parameters", {})
    _members(declared, "/parameters", None)
    return Declaration(
        sender=sender,
        reply_to=reply_to,
        parameters={
            name: _allowance(value, strict_json.child("/parameters", name))
            for name, value in declared.items()
        },
    )


def _allowance(content: Any, pointer: str) -> Allowance:
    _members(content, pointer, {"max_length", "url"})
    longest, url = content.get("max_length", LONGEST_TEXT), content.get("url", False)
    if not isinstance(longest, int) or isinstance(longest, bool) or longest < 1:
        raise InvalidInputError(f"{pointer}/max_length", "not a number of characters from 1 on")
    if not isinstance(url, bool):
        raise InvalidInputError(f"{pointer}/url", "neither true nor false")
    return Allowance(longest, url)


def _members(content: Any, pointer: str, known: set[str] | None) -> None:
    if not isinstance(content, dict):
        raise InvalidInputError(pointer, "not an object")
    for name in content:
        if known is not None and name not in known:
            raise InvalidInputError(strict_json.child(pointer, name), "this member is not known")


def _text(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(pointer, "not a text")
    return value


def _texts(value: Any, place: _Place) -> Iterator[tuple[_Place, str]]:
    """Each text in value with its place, names of members included."""
    for at, current in _values(value, place):
        if isinstance(current, str):
            yield at, current
        elif isinstance(current, dict):
            yield from ((at, name) for name in current)


def _values(value: Any, place: _Place) -> Iterator[tuple[_Place, Any]]:
    """value and all in it with their places. A stack of our own: depth must not be Python's."""
    stack: list[tuple[_Place, Any]] = [(place, value)]
    while stack:
        place, current = stack.pop()
        yield place, current
        if isinstance(current, dict):
            stack += [((place, name), inner) for name, inner in reversed(current.items())]
        elif isinstance(current, list):
            inners = list(enumerate(current))
            stack += [((place, str(number)), inner) for number, inner in reversed(inners)]


def _pointer(place: _Place) -> str:
    names = []
    while place is not None:
        place, name = place
        names.append(name)
    pointer = ""
    for name in reversed(names):
        pointer = strict_json.child(pointer, name)
    return pointer
