"""Mails of hostile parts: values that broke real mailers, and as many more as a seed makes.

What a reader must find in the bytes is said here, and read out of them by a parser that shares
nothing with `postlease.mime`.
"""

from __future__ import annotations

import email
import email.policy
import html
import random
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.utils import getaddresses
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from postlease.mime import compose
from postlease.model import Addressing, Attachment, Envelope, Mailbox, RenderedMail

if TYPE_CHECKING:
    from collections.abc import Iterator

Box: TypeAlias = tuple[str, str]
"""Display name and address."""

File: TypeAlias = tuple[str, bytes, str | None]
"""File name, content, and content id of what is shown inside of the HTML."""

SENT_AT = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
SENDER = "no-reply@mail.example.com"
HIDDEN = "hidden@example.org"


@dataclass(frozen=True)
class Parts:
    """A mail as its reader has it: lines of the bodies end in a newline, files are in any order."""

    sender: Box
    to: tuple[Box, ...]
    cc: tuple[Box, ...]
    reply_to: tuple[Box, ...]
    subject: str
    text: str
    html: str
    files: tuple[File, ...]

    @property
    def headers(self) -> list[str]:
        """The names of its headers, in lower case: these and no others."""
        optional = [("cc", self.cc), ("reply-to", self.reply_to)]
        return sorted(
            [
                *("from", "to", "subject", "date", "message-id", "mime-version", "content-type"),
                *("auto-submitted", "x-auto-response-suppress"),
                *("x-postlease-id", "x-postlease-attempt"),
                *(name for name, boxes in optional if boxes),
            ]
        )


def composed(parts: Parts, *, number: int = 1) -> bytes:
    """The bytes that the product makes of parts."""
    files = [
        Attachment(name, "image/png" if content_id else "application/pdf", content, content_id)
        for name, content, content_id in parts.files
    ]
    names = {address.lower(): name for name, address in (*parts.to, *parts.cc) if name}
    return compose(
        envelope=Envelope(
            sender=parts.sender[1],
            to=tuple(address for _, address in parts.to),
            cc=tuple(address for _, address in parts.cc),
            bcc=(HIDDEN,),
        ),
        rendered=RenderedMail(parts.subject, parts.text, parts.html, "v"),
        attachments=files,
        message_id=UUID(int=number),
        attempt=1,
        sent_at=SENT_AT,
        shown=Addressing(
            parts.sender[0], names, Mailbox(*parts.reply_to[0]) if parts.reply_to else None
        ),
    )


def read(content: bytes) -> tuple[Parts, list[str]]:
    """The parts in content and the names of its headers, by the standard library's parser.

    Display names by its older one: the newer leaves a space between two encoded words of a phrase.
    """
    message = email.message_from_bytes(content, policy=email.policy.default)
    raw = email.message_from_bytes(content, policy=email.policy.compat32)
    assert not [defect for part in message.walk() for defect in part.defects]

    def boxes(header: str) -> tuple[Box, ...]:
        found = tuple(
            (str(make_header(decode_header(name))), address)
            for name, address in getaddresses([str(value) for value in raw.get_all(header, [])])
        )
        known = [box.addr_spec for value in message.get_all(header, []) for box in value.addresses]
        assert [address for _, address in found] == known
        return found

    def body(kind: str) -> str:
        part = message.get_body((kind,))
        assert part is not None
        return str(part.get_content()).replace("\r\n", "\n")

    files: list[File] = []
    for part in message.walk():
        if part.get_content_disposition() is not None:
            payload = part.get_payload(decode=True)
            assert isinstance(payload, bytes)
            content_id = str(part["Content-ID"]).strip("<>") if "Content-ID" in part else None
            files.append((str(part.get_filename()), payload, content_id))
    [sender] = boxes("From")
    parts = Parts(
        sender=sender,
        to=boxes("To"),
        cc=boxes("Cc"),
        reply_to=boxes("Reply-To"),
        subject=str(message["Subject"]),
        text=body("plain"),
        html=body("html"),
        files=tuple(files),
    )
    return parts, sorted(name.lower() for name, _ in message.raw_items())


def differences(wanted: Parts, found: Parts, headers: list[str]) -> list[str]:
    """What a reader has that is not wanted: a line for each part, with both values."""
    pairs = {
        field.name: (getattr(wanted, field.name), getattr(found, field.name))
        for field in fields(wanted)
    }
    pairs["files"] = (sorted(wanted.files, key=repr), sorted(found.files, key=repr))
    pairs["headers"] = (wanted.headers, headers)
    return [
        f"{name}: {one!r} is read as {two!r}" for name, (one, two) in pairs.items() if one != two
    ]


def faults_of(content: bytes) -> list[str]:
    """What a relay might not carry as it is: bare line ends, 8bit, lines that are too long."""
    lines = content.split(b"\r\n")
    body = content.partition(b"\r\n\r\n")[2]
    encoded = [line for line in body.split(b"\r\n") if re.fullmatch(rb"\S{77,}", line)]
    found = {
        "a bare CR, LF or NUL": any(set(line) & {0, 10, 13} for line in lines),
        "8bit": not content.isascii() or b"8bit" in content,
        "more than 998 octets in a line": max(map(len, lines)) > 998,
        "more than 76 octets in an encoded line": bool(encoded),
        "an empty encoded word": bool(re.search(rb"=\?utf-8\?.\?\?=", content)),
        "a blind copy": HIDDEN.encode() in content,
    }
    return [name for name, is_so in found.items() if is_so]


# Values of the cases, by axis: what is given, and what a reader is to have of it.

_LONG_URL = "https://app.example.com/verify#token=" + "aB3-_=" * 500
_COMMA = "A v\u00e9ry long name with non-ASCII char and, comma that goes on"
_MASKED = "=?utf-8?q?a=0D=0ABcc:_x?="

NAMES = {
    "": "",
    "Ada": "Ada",
    _COMMA: _COMMA,
    'Đỗ (Sales); "the" <eve@example.org>': 'Đỗ (Sales); "the" <eve@example.org>',
    _MASKED: _MASKED,
    "Почта 📬 " * 12 + "x": "Почта 📬 " * 12 + "x",
    "שלום, עולם": "שלום, עולם",
    "\u202eeve@example.org <ada": "eve@example.org <ada",
    "請求書" * 60: "請求書" * 60,
    'a"b\\c, d': 'a"b\\c, d',
    "eve@example.org": "eve@example.org",
    "  Ada   Lovelace ": "Ada Lovelace",
    "x" * 300: "x" * 300,
    "a.b:c;d,e": "a.b:c;d,e",
    "(comment)": "(comment)",
    "'Ada'": "'Ada'",
    "\u00a0Ada\u3000": "\u00a0Ada\u3000",
}
SUBJECTS = {
    "Hello": "Hello",
    "Confirm\n": "Confirm",
    "\n\n  Confirm\t your\r\n address ": "Confirm your address",
    "a\nBcc: x@example.com": "a Bcc: x@example.com",
    _MASKED: _MASKED,
    "=?utf-8?q??=": "=?utf-8?q??=",
    "Grüße " + "ü" * 300: "Grüße " + "ü" * 300,
    "你好 " * 50: ("你好 " * 50).strip(),
    "x" * 2_000: "x" * 2_000,
    "word " * 300: ("word " * 300).strip(),
    "שלום עולם": "שלום עולם",
    "<b>&amp;</b>": "<b>&amp;</b>",
    "e\u0301 👩‍👩‍👧‍👦 \U0010ffff": "e\u0301 👩‍👩‍👧‍👦 \U0010ffff",
    "\u00a0a\u3000": "\u00a0a\u3000",
    "ends in = and ?": "ends in = and ?",
}
FILENAMES = {
    "invoice.pdf": "invoice.pdf",
    "documento-est\u00e1.docx": "documento-est\u00e1.docx",
    "Pr\u00fcfbericht Q1.pdf": "Pr\u00fcfbericht Q1.pdf",
    "שלום.docx": "שלום.docx",
    "../../etc/passwd": "passwd",
    "C:\\x\\y.pdf": "y.pdf",
    "\u202efdp.gpj": "fdp.gpj",
    "": "attachment",
    ".": "attachment",
    "dir/": "attachment",
    'a"b;c=d.txt': 'a"b;c=d.txt',
    "a%20b+c'*0.pdf": "a%20b+c'*0.pdf",
    "請求書" * 50 + ".pdf": "請求書" * 21 + "請求" + ".pdf",
    "a" * 300: "a" * 200,
    "nom (1) [2].pdf": "nom (1) [2].pdf",
    "=?utf-8?q?x?=.pdf": "=_utf-8?q?x?=.pdf",
    "utf-8''x.pdf": "utf-8''x.pdf",
}
ADDRESSES = {
    address: address
    for address in (
        "ada@example.com",
        "A.B+tag@Example.COM",
        "o'hara@example.com",
        "!#$%&'*+/=?^_`{|}~-@example.net",
        "x" * 64 + "@example.com",
        "ada@" + ".".join(("d" * 63, "e" * 63, "f" * 50)) + ".example",
        "ada@xn--mnchen-3ya.example",
        "bcc@example.com",
        "a--b__c@sub.sub.example.org",
    )
}
PARAMETERS = {
    value: value
    for value in (
        "1",
        '<a href="https://evil.example">Reset</a><img src=x>',
        '"><b>',
        "{{ 7 * 7 }}",
        "--=_00000000000000000000000000000001_0--",
        "\n.\nMAIL FROM:<eve@example.org>\nFrom x",
        "a\x0bb\x0cc\x1cd\u0085e\u2028f",
        "= =3D =\n=",
        _LONG_URL,
        "日本語" * 500,
        "ü" * 3_000,
        "\tx  \t \n  y ",
    )
}
REFUSED_NAMES = (
    "Eve\r\nBcc: x@example.com",
    "Eve\n",
    "E\u2028x",
    "E\x00",
    "E\x85x",
    "E\x0bx",
    "E\ud83d",
)
REFUSED_SUBJECTS = ("a\u2028b", "a\x0bb", "a\x0cb", "a\x1cb", "a\x85b", "a\x00b", "a\ud83d")
REFUSED_FILENAMES = ("a\r\nX-Evil: 1.pdf", "x\x00.pdf", "x\x85.pdf", "x\u2029.pdf", "x\ud83d.pdf")
REFUSED_ADDRESSES = (
    '"victim@evil.example x"@example.com',
    '"a@evil.example> ORCPT=b@evil.example"@example.com',
    "a@example.com;b@example.net",
    "a@example.com, b@example.net",
    "Smith, Jane <jane@example.com>",
    "a@example.com\r\nBcc: b@example.com",
    "jörg@example.com",
    "ada@münchen.example",
    "=?utf-8?q?ada=40example.org?=@example.com",
    "a\x00@example.com",
)


@dataclass(frozen=True)
class Choice:
    """A value on each axis."""

    name: str = "Ada"
    subject: str = "Hello"
    filename: str = "invoice.pdf"
    address: str = "ada@example.com"
    parameter: str = "1"

    def given(self) -> Parts:
        """The mail that is asked for."""
        return _parts(self.name, self.subject, self.filename, self.address, self.parameter)

    def wanted(self) -> Parts:
        """The mail that its reader is to have."""
        return _parts(
            NAMES[self.name],
            SUBJECTS[self.subject],
            FILENAMES[self.filename],
            self.address,
            self.parameter,
        )


def all_pairs(*axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Rows in which any two values of different axes stand together.

    An orthogonal array: rows i, j of a prime field, with i, j, i + j, i + 2j … on the axes.
    """
    prime = next(n for n in (2, 3, 5, 7, 11, 13, 17, 19, 23) if n >= max(map(len, axes)))
    rows = (
        (i, *((j + place * i) % prime for place in range(len(axes) - 1)))
        for i in range(prime)
        for j in range(prime)
    )
    made = (
        tuple(axis[place % len(axis)] for axis, place in zip(axes, row, strict=True))
        for row in rows
    )
    return list(dict.fromkeys(made))


def accepted_pairs() -> list[Choice]:
    """Every pair of values that can be mailed, on every two axes."""
    axes = (NAMES, SUBJECTS, FILENAMES, ADDRESSES, PARAMETERS)
    return [Choice(*row) for row in all_pairs(*map(tuple, axes))]


def refused_pairs() -> list[Choice]:
    """Every value that must not be mailed, beside every value of each other axis."""
    refused = {
        "name": REFUSED_NAMES,
        "subject": REFUSED_SUBJECTS,
        "filename": REFUSED_FILENAMES,
        "address": REFUSED_ADDRESSES,
    }
    every = {
        "name": (*NAMES, *REFUSED_NAMES),
        "subject": (*SUBJECTS, *REFUSED_SUBJECTS),
        "filename": (*FILENAMES, *REFUSED_FILENAMES),
        "address": (*ADDRESSES, *REFUSED_ADDRESSES),
        "parameter": tuple(PARAMETERS),
    }
    return [
        Choice(**{axis: value, other: beside})
        for axis, values in refused.items()
        for value in values
        for other in every
        if other != axis
        for beside in every[other]
    ]


def each_once() -> list[Choice]:
    """Every value that can be mailed, in one row at least."""
    axes = [list(axis) for axis in (NAMES, SUBJECTS, FILENAMES, ADDRESSES, PARAMETERS)]
    return [
        Choice(*(axis[place % len(axis)] for axis in axes)) for place in range(max(map(len, axes)))
    ]


def _parts(name: str, subject: str, filename: str, address: str, parameter: str) -> Parts:
    return Parts(
        sender=(name, SENDER),
        to=((name, address), ("", "bob@example.com")),
        cc=((name, "cleo@example.net"),),
        reply_to=((name, "help@example.com"),),
        subject=subject,
        text=f"Hello {parameter}\nend\n",
        html=f"<p>{html.escape(parameter)}</p>\n",
        files=((filename, b"\x00\xff%PDF", None),),
    )


# What a seed makes.

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "abc,;:()<>\"@\\=?[]'._-+*%&#!/~^`{|}$ ",
    "äöüßéèñçåøłđỗİıſ",
    "абвгдежзийΑβγδϊ",
    "שלוםمرحبافارسی",
    "日本語請求書株式会社한국어中文字",
    "हिन्दीไทยதமிழ்",
    "📬🎉👩\u200d👧🏳\ufe0f🇩🇪e\u0301n\u0303",
    "\u00a0\u00ad\u2000\u3000\ufffe\U000f0000\U0010ffff",
)
_PIECES = (
    "=?utf-8?q?Eve?=",
    "=?utf-8?b?QmNjOiB4?=",
    "=?",
    "?=",
    "Bcc: eve@example.org",
    "<eve@example.org>",
    '" <eve@example.org>, "',
    "\\",
    "--=_",
    "cid:logo",
    "%0d%0aBcc: eve@example.org",
    "*0*=utf-8''",
)
_MAILBOXES = (
    "{}@example.com",
    "{}+a.b_c@example.com",
    "o'{}@xn--mnchen-3ya.example",
    "!#$%&'*+/=?^_`{{|}}~-{}@example.net",
    "{}" + "x" * 58 + "@example.com",
    "{}@" + ".".join(("d" * 63, "e" * 63, "f" * 50)) + ".example",
)
_PNG = b"\x89PNG\r\n\x1a\n"


def made(seed: int, count: int) -> Iterator[Parts]:
    """Count mails of hostile parts; the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - no secret: it must come out the same again
    for number in range(count):
        files: list[File] = []
        shown = ""
        if chance.random() < 0.5:
            content = chance.randbytes(chance.choice((0, 1, 57, 400)))
            files.append((_filename(chance), content, None))
        if chance.random() < 0.3:
            content_id = chance.choice(("logo", "logo.1", "A-b_c.9"))
            files.append((_filename(chance), _PNG, content_id))
            shown = f'<img src="cid:{content_id}">'
        yield Parts(
            sender=(_line(chance, 90), SENDER),
            to=_boxes(chance, "to", chance.randint(1, 4)),
            cc=_boxes(chance, "cc", chance.randint(0, 3)),
            reply_to=_boxes(chance, "help", chance.randint(0, 1)),
            subject=f"No. {number} {_line(chance, 300)}".strip(),
            text=_body(chance),
            html=f"<p>{html.escape(_body(chance))}</p>{shown}\n",
            files=tuple(files),
        )


def _line(chance: random.Random, longest: int) -> str:
    """Characters that are legal in a header, of one script or several, with single spaces."""
    alphabets = chance.sample(_ALPHABETS, chance.randint(1, 3))
    wanted = min(longest, chance.choice((0, 1, 3, 10, 40, 80, longest)))
    line = ""
    while len(line) < wanted:
        if chance.random() < 0.04:
            line += chance.choice(_PIECES)
        else:
            line += chance.choice(chance.choice(alphabets))
    return re.sub(" +", " ", line[:longest]).strip(" ")


def _filename(chance: random.Random) -> str:
    """A name that is shown as it is: no path, nothing invisible at its ends, not too long."""
    name = re.sub(r"[/\\\u200d]|=\?", "_", _line(chance, 50)) + ".pdf"
    return f"f{name}"


def _boxes(chance: random.Random, local: str, count: int) -> tuple[Box, ...]:
    return tuple(
        (_line(chance, 120), chance.choice(_MAILBOXES).format(f"{local}{number}"))
        for number in range(count)
    )


def _body(chance: random.Random) -> str:
    lines = [_line(chance, 300) for _ in range(chance.randint(0, 6))]
    lines += chance.sample(
        (".", "..", "From x", "  two  ", "\t", "=20", "", _LONG_URL, "--=_", "\x0b\x85\u2028"), 2
    )
    chance.shuffle(lines)
    return "Hello\n" + "\n".join(lines) + "\n"
