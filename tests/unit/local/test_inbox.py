"""What the local inbox keeps of a mail."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from local.inbox import KEPT_BYTES, Inbox


def received(message: EmailMessage) -> tuple[Inbox, bytes]:
    inbox = Inbox()
    content = message.as_bytes()
    inbox.add(provider_message_id="p-1", content=content, recipients={"to": ["ada@example.com"]})
    return inbox, content


def mail() -> EmailMessage:
    message = EmailMessage()
    message.set_content("text")
    message.add_alternative('<img src="cid:logo">', subtype="html")
    return message


def test_an_inline_image_is_listed_with_its_content_id_beside_the_attachments() -> None:
    message = mail()
    html = list(message.iter_parts())[1]
    html.add_related(
        b"PNG", "image", "png", cid="<logo>", filename="logo.png", disposition="inline"
    )
    message.add_attachment(b"%PDF", "application", "pdf", filename="a.pdf")
    inbox, content = received(message)
    assert inbox.mails()[0]["attachments"] == [
        {"filename": "logo.png", "content_type": "image/png", "content_id": "logo", "size": 3},
        {"filename": "a.pdf", "content_type": "application/pdf", "content_id": None, "size": 4},
    ]
    assert inbox.content("p-1") == content
    inbox.clear()
    assert inbox.content("p-1") is None


def test_the_bytes_of_a_large_mail_are_not_kept() -> None:
    message = mail()
    message.add_attachment(b"\0" * KEPT_BYTES, "application", "zip", filename="a.zip")
    inbox, _ = received(message)
    assert inbox.content("p-1") is None
    assert inbox.mails()[0]["attachments"][0]["size"] == KEPT_BYTES


def test_the_newest_come_first_and_a_page_begins_behind_a_mail() -> None:
    inbox = Inbox()
    for name in "abcd":
        inbox.add(provider_message_id=name, content=b"X-Postlease-Id: e\n\n", recipients={})

    def ids(limit: int, behind: str | None = None) -> list[str]:
        found, number = inbox.newest(limit, behind=behind)
        assert number == 4
        return [mail["provider_message_id"] for mail in found]

    assert ids(2) == ["d", "c"]
    assert ids(2, "c") == ["b", "a"]
    assert ids(2, "a") == []
    assert ids(9, "gone") == ["d", "c", "b", "a"]
    assert len(inbox.of("e")) == 4
    assert inbox.of("f") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(range(256)),
        b"Message-ID: <>\nSubject: kept\n\ntext",
        b'From: a@[\nCc: "\\\nSubject: kept\n\ntext',
        b"To: =?utf-8?q??= <\nSubject: kept\n\ntext",
        *(
            b"Subject: kept\nContent-Type: text/html; charset=" + charset + b"\n\n<p>\xff"
            for charset in (b'"a\0b"', b"undefined", b"idna", b"punycode", b"klingon", b"rot13")
        ),
    ],
)
def test_a_mail_that_cannot_be_read_is_in_the_inbox_with_whatever_can_be(content: bytes) -> None:
    inbox = Inbox()
    inbox.add(provider_message_id="a", content=content, recipients={"to": ["ada@example.com"]})
    [mail] = inbox.mails()
    assert mail["to"] == ["ada@example.com"]
    assert mail["subject"] == ("kept" if b"Subject" in content else None)
    assert "text" in (mail["text"] or "") or "<p>" in (mail["html"] or "") or not mail["subject"]


def test_a_header_that_would_keep_the_parser_busy_is_shown_as_it_stands() -> None:
    inbox = Inbox()
    words = b"=?utf-8?q?a?= " * 20_000
    inbox.add(provider_message_id="a", content=b"Subject: " + words + b"\n\nx", recipients={})
    assert inbox.mails()[0]["subject"].strip() == words.decode().strip()


def test_a_mail_in_a_mail_has_its_size() -> None:
    inbox = Inbox()
    part = b"--x\nContent-Type: message/rfc822\nContent-Disposition: attachment\n\n"
    inbox.add(
        provider_message_id="a",
        content=b"Content-Type: multipart/mixed; boundary=x\n\n"
        + part
        + b"Subject: in\n\nhello\n--x--\n",
        recipients={},
    )
    assert inbox.mails()[0]["attachments"][0]["size"] == len(b"Subject: in\n\nhello")
