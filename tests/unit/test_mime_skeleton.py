"""The short way to an ordinary mail gives the bytes that the standard library's tree gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from email.header import Header
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postlease.mime import building, compose, composing, skeleton, subject
from postlease.model import Addressing, Attachment, Envelope, RenderedMail
from postlease.rendering import SHIPPED, Templates
from tests import hostile

MESSAGE_ID = UUID("01920000-0000-7000-8000-00000000002a")
SENT_AT = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
ENVELOPE = Envelope("no-reply@mail.example.com", ("ada@example.com",), (), ("hidden@example.org",))
TEMPLATES = Templates(SHIPPED)


def both(text: str, html: str) -> tuple[bytes, bytes]:
    """A mail of these bodies, the short way and as a tree."""
    rendered = RenderedMail("Hello", text, html, "v")
    headers = list(
        composing.head(
            envelope=ENVELOPE, rendered=rendered, message_id=MESSAGE_ID, attempt=1, sent_at=SENT_AT
        )
    )
    return (
        skeleton.fill(headers, rendered, MESSAGE_ID),
        building.build(headers, rendered, (), MESSAGE_ID),
    )


def test_generated_mails_have_the_bytes_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    mails = [replace(mail, files=()) for mail in hostile.made(20260301, 700)]
    mails += [replace(row.given(), files=()) for row in hostile.accepted_pairs()]
    short = [hostile.composed(mail, number=number) for number, mail in enumerate(mails)]

    def build(headers: list[tuple[str, str]], rendered: RenderedMail, message_id: UUID) -> bytes:
        return building.build(headers, rendered, (), message_id)

    monkeypatch.setattr(skeleton, "fill", build)
    as_trees = [hostile.composed(mail, number=number) for number, mail in enumerate(mails)]
    pairs = zip(short, as_trees, strict=True)
    different = [number for number, (one, other) in enumerate(pairs) if one != other]
    assert different == []


@pytest.mark.parametrize("template", TEMPLATES.names())
def test_shipped_mails_have_the_bytes_of_the_tree(template: str) -> None:
    for locale in TEMPLATES.locales(template):
        for sample in TEMPLATES.samples(template).values():
            rendered = TEMPLATES.render(template, locale, sample)
            short, as_tree = both(rendered.text, rendered.html)
            assert short == as_tree


PIECES = st.sampled_from(
    [
        "\n",
        "\r",
        "\r\n",
        ".",
        "=",
        " ",
        "\t",
        "x" * 72,
        "x" * 75,
        "ü",
        "日",
        "\0",
        "\x0b",
        "\x85",
        "\u2028",
    ]
)
BODIES = st.one_of(
    st.text(max_size=200),
    st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=40).map("".join),
)


@settings(max_examples=300)
@given(text=BODIES, html=BODIES)
@example(text="", html="\n")
@example(text=".\nx" + "y" * 75 + ".", html="x" * 75 + ".\n.\0")
@example(text="\n".join("x" * n + "=" for n in range(70, 80)), html="x" * 73 + "ü")
@example(text="\n".join("x" * n + " " for n in range(70, 80)), html="x" * 74 + "\t")
def test_every_body_has_the_bytes_of_the_tree(text: str, html: str) -> None:
    short, as_tree = both(text, html)
    assert short == as_tree


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=90))
def test_a_short_subject_is_what_the_library_would_fold_it_to(text: str) -> None:
    text = " ".join(text.split())
    if text and "=?" not in text:
        folded = Header(text, "us-ascii", 76, "Subject").encode(linesep="\r\n")
        if max(map(len, text.split(" "))) < 60:
            assert subject(text) == folded


@pytest.mark.parametrize("attached", [True, False])
def test_only_what_has_something_attached_is_built_as_a_tree(
    monkeypatch: pytest.MonkeyPatch, attached: bool
) -> None:
    monkeypatch.setattr(building, "build", lambda *_: b"tree")
    content = compose(
        envelope=ENVELOPE,
        rendered=RenderedMail("Hello", "Hello\n", "<p>Hello</p>\n", "v"),
        attachments=[Attachment("a.pdf", "application/pdf", b"%PDF")] if attached else [],
        message_id=MESSAGE_ID,
        attempt=1,
        sent_at=SENT_AT,
        shown=Addressing("Acme"),
    )
    assert (content == b"tree") is attached
