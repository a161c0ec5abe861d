"""Canaries: texts that nobody can guess, and a search for them in whatever spelling they fly.

What must appear in no log (a person's address or name, a token, a key, a secret) is made so that no
chance brings it about; then every byte that was written is searched for all of it.
"""

from __future__ import annotations

import base64
import re
import secrets
from dataclasses import dataclass, field
from urllib.parse import quote

TOKEN = re.compile(r"(?<![\w-])[\w-]{64}(?![\w-])", re.ASCII)
"""A text of a token's shape."""

ADDRESS = re.compile(r"(@|%40)[\w.-]*example\.", re.IGNORECASE)
"""What the tests' addresses have in common."""

CODE = re.compile(r"^Or type this code .*: (\d{6})$", re.MULTILINE)
LINK = re.compile(r"#token=([\w-]{64})")

_ENTRY = re.compile(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ UTC \[\d+\] )", re.MULTILINE)
LOG_LINE_PREFIX = "%m [%p] user=%u app=%a: "
"""The setting of a server whose log `entries` can read."""


def word(kind: str) -> str:
    """A word of its own, in letters and digits."""
    return f"{kind}{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whose address and name are canaries."""

    mailbox: str = field(default_factory=lambda: word("canary"))
    domain: str = field(default_factory=lambda: word("nest"))
    name: str = field(default_factory=lambda: word("name"))

    @property
    def address(self) -> str:
        """Where mail reaches them."""
        return f"{self.mailbox}@{self.domain}.example.com"


@dataclass(slots=True)
class Canaries:
    """The words to search for. Codes are short, so they count only where they stand alone."""

    words: set[str] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)

    def person(self) -> Person:
        """Somebody new, all of whose words are searched for from now on."""
        person = Person()
        self.words |= {person.mailbox, person.domain, person.name}
        return person

    def key(self) -> str:
        """A new key, searched for from now on."""
        self.words.add(made := word("key"))
        return made

    def found_in(self, text: str, *, but: frozenset[str] = frozenset()) -> list[str]:
        """Which words, but for some, text holds, in whatever spelling."""
        folded = text.casefold()
        words = [
            word
            for word in sorted(self.words - but)
            if any(s in text for s in exact_spellings(word))
            or any(s in folded for s in folded_spellings(word))
        ]
        codes = [c for c in sorted(self.codes) if re.search(rf"(?<![\w.]){c}(?![\w.])", text)]
        return words + codes


def folded_spellings(word: str) -> set[str]:
    """How word may be written where case does not matter, in lower case."""
    content = word.encode()
    return {
        word.casefold(),
        quote(word).casefold(),
        "".join(f"%{byte:02x}" for byte in content),
        "".join(f"\\u{byte:04x}" for byte in content),
        content.hex(),
    }


def exact_spellings(word: str) -> set[str]:
    """word in base64, wherever in a longer text it may have stood."""
    spellings = set()
    for given in (word, word.upper()):
        for before in range(3):
            encoded = base64.b64encode(b"\0" * before + given.encode()).decode().rstrip("=")
            # The characters at both ends are made of what stands before and behind as well.
            inner = encoded[(0, 2, 3)[before] : -1]
            spellings |= {inner, inner.replace("+", "-").replace("/", "_")}
    return spellings


def looks_personal(text: str) -> bool:
    """Whether text holds what may be an address of the tests, or a token."""
    return bool(ADDRESS.search(text) or TOKEN.search(text))


def entries(log: str, *, but_of: str | None = None) -> list[str]:
    """The entries of a server's log, whole, but for those of one application name."""
    whole = filter(None, _ENTRY.split(log))
    return [entry for entry in whole if f" app={but_of}: " not in entry]
