"""What stands in a header. Nothing that could begin another one gets in.

The standard library's own folding leaves commas outside of encoded words, puts encoded words inside
of addresses and writes empty ones (python/cpython#121284, #136052): these headers are folded here.
"""

from __future__ import annotations

import re
from email.header import Header, decode_header, make_header
from typing import TYPE_CHECKING

from postlease.errors import TemplateError
from postlease.model import Mailbox

if TYPE_CHECKING:
    from collections.abc import Iterable

LINE_END = "\r\n"
_FOLD_AT = 76
_LONGEST_QUOTED = 60

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_PLAIN_NAME = re.compile(rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~ -]{{1,{_LONGEST_QUOTED}}}")

_UNSEEN = re.compile("[\u202a-\u202e\u2066-\u2069\ufeff]")
"""They turn the reading direction of what follows (the address beside the name, at worst), or are
the mark of a byte order, which readers drop."""

_ENCODED = "=?"
"""How an encoded word begins (RFC 2047): what looks like one is never left to be decoded."""

_ENCODED_WORD = re.compile(r"=\?[^?]+\?[BbQq]\?.*\?=")


def guard(text: str, *, header: str) -> str:
    """text, unless a control character, a line separator or a lone surrogate is in it."""
    if _FORBIDDEN.search(text):
        raise TemplateError("invalid_header", header)
    return text


def mailboxes(boxes: Iterable[Mailbox], *, header: str) -> str:
    """The value of an address header, one mailbox on each line."""
    return f",{LINE_END} ".join(_mailbox(box, header=header) for box in boxes)


def read_mailboxes(value: str) -> tuple[Mailbox, ...]:
    """The mailboxes in a value that `mailboxes` wrote, as it stands between name and next header.

    The parser of `email.policy.default` leaves a space between two encoded words of a phrase, which
    RFC 2047 (6.2) says to drop.
    """
    return tuple(map(_read_mailbox, value.split(f",{LINE_END} ")))


def subject(text: str) -> str:
    """The value of the subject, its whitespace collapsed (editors end files with a newline)."""
    text = re.sub("[ \t\r\n]+", " ", _UNSEEN.sub("", text)).strip(" ")
    if not text:
        raise TemplateError("empty_subject")
    guard(text, header="Subject")
    # What looks like an encoded word, and a word too long to fold, goes out encoded.
    if text.isascii() and _ENCODED not in text and max(map(len, text.split(" "))) < 60:
        if len("Subject: ") + len(text) <= _FOLD_AT:
            return text
        return Header(text, "us-ascii", _FOLD_AT, "Subject").encode(linesep=LINE_END)
    return _encoded_words(text, header="Subject")


def _mailbox(box: Mailbox, *, header: str) -> str:
    """`name <address>`, folded; only the name is ever encoded (RFC 2047, section 5 (3))."""
    if not _ADDRESS.fullmatch(box.address) or _ENCODED_WORD.search(box.address):
        raise TemplateError("invalid_header", header)
    name = re.sub(" +", " ", _UNSEEN.sub("", guard(box.name, header=header))).strip(" ")
    if not name:
        return box.address
    if _PLAIN_NAME.fullmatch(name) and _ENCODED not in name:
        phrase = name
    elif name.isascii() and len(name) <= _LONGEST_QUOTED and _ENCODED not in name:
        phrase = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    else:
        phrase = _encoded_words(name, header=header)
    return f"{phrase}{LINE_END} <{box.address}>"


def _read_mailbox(written: str) -> Mailbox:
    phrase, bracket, address = written.replace(LINE_END, "").rpartition("<")
    if not bracket:
        return Mailbox("", address)
    name = phrase.strip(" ")
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    elif _ENCODED in name:
        name = str(make_header(decode_header(name)))
    return Mailbox(name, address.removesuffix(">"))


def _encoded_words(text: str, *, header: str) -> str:
    return Header(text, "utf-8", _FOLD_AT, header).encode(linesep=LINE_END)
