"""Email addresses: one text, one address, in the form we may send to. Pure: no DNS, no clock.

What is refused here can never reach a header, an envelope or the database. How often an address
may be used, and whether it is suppressed, belongs elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from postlease.errors import InvalidInputError

_LONGEST = 320
"""64 before the @, 255 after it: longer texts are refused before anything looks into them."""

_LONGEST_NAME = 128

_ENCODED_WORD = re.compile(r"=\?[^?]+\?[BbQq]\?.*\?=")
"""A reader's program would decode it in a header, to another address at worst (RFC 2047)."""

_OF_SEVERAL = re.compile("[,;<>]")
_QUOTED = re.compile('"[^"]*"')

_TRIMMED = " \t\r\n\u00a0\u3000"
"""What a paste leaves around an address. Other controls and zero-width characters are refused."""

_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})

_BLANK_LETTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
    + "".join(map(chr, range(0x180B, 0x1810)))
    + "".join(map(chr, range(0xFE00, 0xFE10)))
)
"""Invisible, although Unicode files them under letters and marks."""


@dataclass(frozen=True, slots=True)
class Address:
    """A checked address, all ASCII.

    deliverable is the address as given with its domain in A-labels: mail goes there. canonical
    folds case and nothing else: two texts are the same account exactly when it is equal.
    """

    deliverable: str = field(repr=False)
    canonical: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who a mail is from: the address, and the name shown before it (empty for none)."""

    name: str = field(repr=False)
    address: str = field(repr=False)


def parse(text: str, *, pointer: str) -> Address:
    """The one address that text is; InvalidInputError(pointer) for anything else.

    Outer whitespace is trimmed. Refused: control and invisible characters wherever they stand,
    display names, comments, quoted local parts, encoded words, lists, address literals, local parts
    that are not ASCII (they need SMTPUTF8, which providers lack) or longer than 64 characters
    (RFC 5321, 4.5.3.1.1), and domains that can never receive mail (`localhost`, `.invalid`,
    `.local`, `.onion`, `.arpa`). `example.com`, `.example` and `.test` pass, as RFC 6761 asks of
    applications: people try a system with them. Domains become IDNA 2008 A-labels.
    """
    text = text.strip(_TRIMMED)
    local, domain = _split(text, pointer)
    canonical_domain = _domain(local, domain, pointer)
    deliverable = f"{local}@{canonical_domain}"
    return Address(deliverable=deliverable, canonical=deliverable.lower())


def parse_sender(text: str, *, pointer: str) -> Sender:
    """`Name <address>` or a bare address, as a deployment writes its sender.

    The name may hold any visible character; quotes around it are dropped.
    """
    text = text.strip(_TRIMMED)
    if not text.endswith(">"):
        return Sender(name="", address=parse(text, pointer=pointer).deliverable)
    name, _, address = text[:-1].rpartition("<")
    name = name.strip(_TRIMMED)
    if len(name) >= 2 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if len(name) > _LONGEST_NAME or any(_is_invisible(c) and c != " " for c in name):
        raise InvalidInputError(pointer, "the name holds an invisible character or is too long")
    return Sender(name=name, address=parse(address, pointer=pointer).deliverable)


def masked(address: str) -> str:
    """The address as somebody may see it who need not know it: `a***@example.com`."""
    local, at, domain = address.rpartition("@")
    return f"{local[:1]}***@{domain}" if at else "***"


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _REFUSED_CATEGORIES or character in _BLANK_LETTERS


def _split(text: str, pointer: str) -> tuple[str, str]:
    """Local part and domain as given, with the refusals that deserve a sentence of their own."""
    if not text:
        raise InvalidInputError(pointer, "an email address is required")
    if len(text) > _LONGEST:
        raise InvalidInputError(pointer, "the address is too long")
    if _OF_SEVERAL.search(_QUOTED.sub("", text)):
        raise InvalidInputError(
            pointer, "one address only, without a name; of more, each is an element of its own"
        )
    if any(map(_is_invisible, text)):
        raise InvalidInputError(pointer, "the address holds a space or an invisible character")
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain:
        raise InvalidInputError(pointer, "an address has the form name@domain")
    if '"' in local:
        raise InvalidInputError(pointer, "a quoted part before the @ is not supported")
    if not local.isascii():
        raise InvalidInputError(
            pointer, "letters outside ASCII before the @ are not supported by mail providers"
        )
    if _ENCODED_WORD.search(local):
        raise InvalidInputError(pointer, "the part before the @ reads as an encoded word")
    if len(local) > 64:
        raise InvalidInputError(pointer, "the part before the @ is longer than 64 characters")
    return local, domain


def _domain(local: str, domain: str, pointer: str) -> str:
    """The domain in A-labels, after the library has accepted the whole address."""
    # 55 ms of import, and a sweep parses nothing: only who asks pays.
    import email_validator  # noqa: PLC0415

    try:
        checked = email_validator.validate_email(
            f"{local}@{domain}",
            allow_smtputf8=False,
            allow_quoted_local=False,
            allow_domain_literal=False,
            allow_display_name=False,
            strict=True,
            check_deliverability=False,
            test_environment=True,
        )
    except (email_validator.EmailNotValidError, UnicodeError):
        # The library's sentence quotes the address.
        raise InvalidInputError(pointer, "this is not a valid email address") from None
    if checked.ascii_domain is None or "." not in checked.ascii_domain:
        raise InvalidInputError(pointer, "the domain is not complete")
    return checked.ascii_domain
