"""The bytes of a mail: what a reader's program finds in them, and what never gets in."""

from __future__ import annotations

import email
import email.policy
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postlease.errors import TemplateError
from postlease.mime import compose, message_identifier
from postlease.model import Addressing, Attachment, Envelope, Mailbox, RenderedMail, event_id
from tests.hostile import faults_of, read

if TYPE_CHECKING:
    from email.message import EmailMessage

MESSAGE_ID = UUID("01920000-0000-7000-8000-00000000002a")
SENT_AT = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
ENVELOPE = Envelope(
    sender="no-reply@mail.example.com",
    to=("ada@example.com", "bob@xn--mnchen-3ya.example"),
    cc=("cleo@example.net",),
    bcc=("hidden@example.org",),
)
HELP = Mailbox("", "help@example.com")
HEADERS = {
    "From",
    "To",
    "Cc",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
    "X-Postlease-Id",
    "X-Postlease-Attempt",
    "MIME-Version",
    "Content-Type",
}
WHOLE_NAMES = [
    "Acme",
    "Acme, Inc.",
    'Acme "the best" \\ Co',
    "Почта 📬",
    "A v\u00e9ry long name with non-ASCII char and, comma that goes on",
    "Đỗ (Sales)",
    "請求書" * 60,
    "שלום, עולם",
    "=?utf-8?q?Eve?=",
    "a" * 120,
    "<eve@example.org>",
    "eve@example.org",
    'x" <eve@example.org>, "y',
    "a:b;c@[d]",
]
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD83D)]
COLLAPSED = {" ", "\t", "\r", "\n"}


def mail(
    subject: str = "Hello", text: str = "Hello\n", html: str = "<p>Hello</p>\n", **given_: Any
) -> bytes:
    arguments: dict[str, Any] = {
        "envelope": ENVELOPE,
        "attachments": (),
        "message_id": MESSAGE_ID,
        "attempt": 1,
        "sent_at": SENT_AT,
    }
    rendered = RenderedMail(subject=subject, text=text, html=html, version="v")
    return compose(rendered=rendered, **(arguments | given_))


def parsed(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=email.policy.default)


def attached(filename: str, content_type: str = "application/pdf") -> Attachment:
    return Attachment(filename=filename, content_type=content_type, content=b"\x00\xff%PDF")


def body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    text = part.get_content()
    assert isinstance(text, str)
    return text.replace("\r\n", "\n")


def unspaced(text: str) -> str:
    """What a header keeps of text."""
    return re.sub(" +", " ", re.sub("[\u202a-\u202e\u2066-\u2069\ufeff]", "", text)).strip(" ")


def normal(text: str) -> str:
    """Line ends as a reader gets them: CR, LF and CRLF are one newline, and the last is there."""
    text = re.sub("\r\n|\r|\n", "\n", text)
    return text if text.endswith("\n") else text + "\n"


def test_a_mail_carries_its_ids_its_automation_marks_and_nothing_of_the_blind_copies() -> None:
    content = mail(attempt=3, shown=Addressing("Acme", reply_to=HELP))
    message = parsed(content)
    assert set(message.keys()) == HEADERS
    assert len(message.keys()) == len(HEADERS)
    assert message["From"] == "Acme <no-reply@mail.example.com>"
    assert message["To"] == "ada@example.com, bob@xn--mnchen-3ya.example"
    assert message["Cc"] == "cleo@example.net"
    assert message["Reply-To"] == "help@example.com"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["X-Auto-Response-Suppress"] == "All"
    assert message["Message-ID"] == f"<{MESSAGE_ID}@mail.example.com>"
    assert message["Message-ID"] == message_identifier(MESSAGE_ID, ENVELOPE.sender)
    assert message["X-Postlease-Id"] == event_id(MESSAGE_ID)
    assert message["X-Postlease-Attempt"] == "3"
    assert message["Date"] == "Sun, 01 Mar 2026 12:30:15 +0000"
    assert b"hidden" not in content
    assert b"List-Unsubscribe" not in content


def test_headers_without_an_address_are_left_out() -> None:
    envelope = Envelope(sender="no-reply@example.com", to=("ada@example.com",), cc=(), bcc=())
    assert set(parsed(mail(envelope=envelope)).keys()) == HEADERS - {"Cc", "Reply-To"}


def test_the_same_mail_gives_the_same_bytes() -> None:
    assert mail(attachments=[attached("a.pdf")]) == mail(attachments=[attached("a.pdf")])


def test_text_comes_before_html_and_attachments_come_last() -> None:
    message = parsed(mail(attachments=[attached("a.pdf"), attached("b.txt", "text/plain")]))
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "application/pdf",
        "text/plain",
    ]
    assert parsed(mail()).get_content_type() == "multipart/alternative"


def test_a_long_link_comes_back_whole() -> None:
    """VER-09."""
    link = "https://app.example.com/verify#token=" + "aB3-_=" * 400
    message = parsed(mail(text=f"Go to\n{link}\nnow", html=f'<a href="{link}">go</a>'))
    assert link in body(message, "plain").splitlines()
    assert f'"{link}"' in body(message, "html")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Gruß", "quoted-printable"), ("a", "quoted-printable"), ("日本語", "base64")],
)
def test_no_body_is_8bit(text: str, encoding: str) -> None:
    """MIM-08."""
    content = mail(text=text, html=text)
    assert content.isascii()
    assert b"8bit" not in content
    for kind in ("plain", "html"):
        part = parsed(content).get_body((kind,))
        assert part is not None
        assert part["Content-Transfer-Encoding"] == encoding
        assert body(parsed(content), kind) == text + "\n"


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("Confirm\n", "Confirm"),
        ("\n\n  Confirm\t your\r\n address ", "Confirm your address"),
        ("a\nb", "a b"),
        ("=?utf-8?q?a=0D=0ABcc:_x?=", "=?utf-8?q?a=0D=0ABcc:_x?="),
        ("=?utf-8?q??=", "=?utf-8?q??="),
        ("\ufeff\u202eYour code", "Your code"),
        ("x" * 2_000, "x" * 2_000),
        ("word " * 300, ("word " * 300).strip()),
        ("Grüße " + "ü" * 300, "Grüße " + "ü" * 300),
        ("你好 " * 50, ("你好 " * 50).strip()),
        ("Bcc: x@example.com", "Bcc: x@example.com"),
    ],
)
def test_a_subject_arrives_as_written_with_its_whitespace_collapsed(
    subject: str, shown: str
) -> None:
    """MIM-03, MIM-04."""
    content = mail(subject=subject)
    assert parsed(content)["Subject"] == shown
    assert b"=?utf-8?q??=" not in content
    assert max(map(len, content.split(b"\r\n"))) <= 998


@pytest.mark.parametrize("subject", ["", " ", "\r\n\t"])
def test_an_empty_subject_is_refused(subject: str) -> None:
    with pytest.raises(TemplateError) as caught:
        mail(subject=subject)
    assert caught.value.code == "empty_subject"


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: f"U+{ord(c):04X}")
def test_a_control_character_gets_into_no_header(control: str) -> None:
    """MIM-03, ATT-03: CR, LF, NUL, every other C0 and C1, line separators, lone surrogates."""
    hostile = f"Eve{control}Bcc: x@example.com"
    attempts: list[dict[str, Any]] = [
        {"shown": Addressing(hostile)},
        {"shown": Addressing(recipients={"ada@example.com": hostile})},
        {"shown": Addressing(recipients={"cleo@example.net": hostile})},
        {"shown": Addressing(reply_to=Mailbox("", f"help@example.com{control}"))},
        {"shown": Addressing(reply_to=Mailbox(hostile, "help@example.com"))},
        {"envelope": Envelope(f"a@example.com{control}", ("b@example.com",), (), ())},
        {"envelope": Envelope("a@example.com", (f"b@example.com{control}",), (), ())},
        {"envelope": Envelope("a@example.com", ("b@example.com",), (hostile,), ())},
        {"attachments": [attached(hostile)]},
        {"attachments": [attached("a.pdf", f"application/pdf{control}")]},
    ]
    if control not in COLLAPSED:
        attempts.append({"subject": hostile})
    for attempt in attempts:
        with pytest.raises(TemplateError) as caught:
            mail(**attempt)
        assert caught.value.code == "invalid_header"
        assert "Eve" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ada",
        "ada@example",
        "jörg@example.com",
        "ada@münchen.example",
        "Ada <ada@example.com>",
        "ada@example.com, bob@example.com",
        '"victim@evil.example x"@example.com',
        "ada@example.com>",
        "=?utf-8?q?ada=40example.org?=@example.com",
        "x" * 65 + "@example.com",
    ],
)
def test_what_is_not_a_plain_address_gets_into_no_header(address: str) -> None:
    """MIM-06."""
    with pytest.raises(TemplateError, match=r"^invalid_header: To$") as caught:
        mail(envelope=Envelope("a@example.com", (address,), (), ()))
    assert caught.value.code == "invalid_header"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *((name, name) for name in WHOLE_NAMES),
        ("  Ada   Lovelace ", "Ada Lovelace"),
        ("Lovelace,   Ada", "Lovelace, Ada"),
        ("\u202eelpmaxe@eve\u202c", "elpmaxe@eve"),
        ("\ufeffAda", "Ada"),
    ],
)
def test_a_display_name_comes_back_whole_beside_the_one_address(name: str, shown: str) -> None:
    """MIM-01, MIM-10: in every header it is one name, and no part of it another address."""
    names = {"ada@example.com": name, "cleo@example.net": name}
    addressing = Addressing(name, names, Mailbox(name, "help@example.com"))
    found, _ = read(mail(shown=addressing))
    assert found.sender == (shown, ENVELOPE.sender)
    assert found.to == ((shown, "ada@example.com"), ("", "bob@xn--mnchen-3ya.example"))
    assert found.cc == ((shown, "cleo@example.net"),)
    assert found.reply_to == ((shown, "help@example.com"),)


def test_names_belong_to_addresses_in_any_spelling_and_to_nobody_else() -> None:
    envelope = Envelope(ENVELOPE.sender, ("Ada@Example.COM", "bob@example.com"), (), ())
    shown = Addressing(recipients={"ada@example.com": "Ada", "cleo@example.net": "Cleo"})
    assert parsed(mail(envelope=envelope, shown=shown))["To"] == (
        "Ada <Ada@Example.COM>, bob@example.com"
    )


def test_a_blind_copy_s_name_stands_nowhere() -> None:
    content = mail(shown=Addressing(recipients={"hidden@example.org": "Hidden Person"}))
    assert b"Hidden" not in content
    assert b"hidden" not in content


@pytest.mark.parametrize(
    ("given_name", "shown"),
    [
        ("invoice.pdf", "invoice.pdf"),
        ("documento-está.docx", "documento-está.docx"),
        ("Prüfbericht Q1.pdf", "Prüfbericht Q1.pdf"),
        ("שלום.docx", "שלום.docx"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.pdf", "y.pdf"),
        ("\u202egpj.exe", "gpj.exe"),
        ("", "attachment"),
        (".", "attachment"),
        ("..", "attachment"),
        ("dir/", "attachment"),
        (".env", ".env"),
        ('a"b;c=d.txt', 'a"b;c=d.txt'),
        ("a%20b+c.pdf", "a%20b+c.pdf"),
        ("=?utf-8?q?x.exe?=.pdf", "=_utf-8?q?x.exe?=.pdf"),
        ("請求書" * 50 + ".pdf", "請求書" * 21 + "請求" + ".pdf"),
        ("a" * 300, "a" * 200),
        ("a." + "b" * 300, "a." + "b" * 198),
    ],
)
def test_a_file_name_is_its_last_part_readable_everywhere_and_never_misleading(
    given_name: str, shown: str
) -> None:
    """ATT-01, ATT-03."""
    content = mail(attachments=[attached(given_name)])
    assert content.isascii()
    (part,) = parsed(content).iter_attachments()
    assert part.get_filename() == shown
    fallback = part["Content-Type"].params["name"]
    assert fallback.isascii()
    assert 0 < len(fallback) <= 40
    assert b"name*" not in content.replace(b"filename*", b"")
    assert not re.search(r'["/\\%*\']', fallback)
    assert part.get_content() == b"\x00\xff%PDF"


@pytest.mark.parametrize(
    ("given_type", "sent"),
    [
        ("application/pdf", "application/pdf"),
        ("IMAGE/PNG", "image/png"),
        ("text/calendar", "text/calendar"),
        ("text/html; charset=utf-8", "application/octet-stream"),
        ("message/rfc822", "application/octet-stream"),
        ("multipart/mixed", "application/octet-stream"),
        ("pdf", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_an_attachment_is_bytes_of_its_media_type_or_just_bytes(given_type: str, sent: str) -> None:
    (part,) = parsed(mail(attachments=[attached("a.bin", given_type)])).iter_attachments()
    assert part.get_content_type() == sent
    assert part["Content-Transfer-Encoding"] == "base64"
    assert part.get_payload(decode=True) == b"\x00\xff%PDF"


def image(content_id: str | None, content_type: str = "image/png") -> Attachment:
    return Attachment(f"{content_id}.png", content_type, b"\x89PNG", content_id)


def test_an_image_that_the_html_names_stands_beside_it() -> None:
    """RFC 2387: the HTML is the root, and the type of what it is related to says so."""
    message = parsed(
        mail(html='<img src="cid:logo">', attachments=[attached("a.pdf"), image("logo")])
    )
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
    ]
    related, shown, ordinary = (list(message.walk())[place] for place in (3, 5, 6))
    assert related.get_param("type") == "text/html"
    assert shown["Content-ID"] == "<logo>"
    assert shown.get_content_disposition() == "inline"
    assert shown.get_filename() == "logo.png"
    assert shown["Content-Type"].params["name"] == "logo.png"
    assert shown.get_payload(decode=True) == b"\x89PNG"
    assert ordinary.get_content_disposition() == "attachment"


def test_without_other_attachments_the_alternatives_are_the_mail() -> None:
    message = parsed(
        mail(html="<img src=cid:a><img src='CID:B.2'>", attachments=[image("a"), image("B.2")])
    )
    assert message.get_content_type() == "multipart/alternative"
    assert [part["Content-ID"] for part in message.walk() if "Content-ID" in part] == [
        "<a>",
        "<B.2>",
    ]


@pytest.mark.parametrize(
    ("html", "one"),
    [
        ("<p>no image</p>", image("logo")),
        ('<img src="cid:logo2">', image("logo")),
        ('<img src="cid:LOGO">', image("logo")),
        ('<img src="logo">', image("logo")),
        ('<img src="acid:logo">', image("logo")),
        ('<img src="cid:logo">', image("logo", "application/pdf")),
        ('<img src="cid:logo">', image("logo", "text/html")),
        ('<img src="cid:logo">', image(None)),
    ],
)
def test_what_the_html_does_not_show_is_an_ordinary_attachment(html: str, one: Attachment) -> None:
    """Mail programs hide a part with an id: it is left out, and the file is there to be seen."""
    message = parsed(mail(html=html, attachments=[one]))
    assert message.get_content_type() == "multipart/mixed"
    (part,) = message.iter_attachments()
    assert part.get_content_disposition() == "attachment"
    assert part.get_filename() == one.filename
    assert "Content-ID" not in part


def test_two_equal_content_ids_are_refused() -> None:
    with pytest.raises(TemplateError) as caught:
        mail(attachments=[image("logo"), image("mark"), image("logo")])
    assert caught.value.code == "repeated_content_id"
    mail(attachments=[image("logo"), image("Logo"), image(None), image(None)])


@pytest.mark.parametrize(
    "content_id", ["", ".a", "-a", "a b", "a>\r\nX: 1", "a@b", "<a>", "a\n", "ä", "a" * 101]
)
def test_a_content_id_of_another_shape_is_refused(content_id: str) -> None:
    with pytest.raises(TemplateError, match=r"^invalid_header: Content-ID$"):
        mail(attachments=[Attachment("a.png", "image/png", b"", content_id)])


@pytest.mark.parametrize(
    "text",
    [
        "x" * 5_000,
        "ü" * 5_000,
        "日本語" * 2_000,
        "a " * 3_000,
        "=" * 999,
        "https://a.example/" + "%20" * 900,
    ],
)
def test_no_line_is_longer_than_a_relay_must_take(text: str) -> None:
    """998 octets (RFC 5322, 2.1.1), and 76 where it is encoded (RFC 2045, 6.7 and 6.8)."""
    content = mail(
        subject=text,
        text=text,
        html=text,
        attachments=[attached("f" * 250, "a/b")],
        shown=Addressing("a, b; c " * 200, {"ada@example.com": text}),
    )
    assert faults_of(content) == []
    assert max(map(len, content.partition(b"\r\n\r\n")[2].split(b"\r\n"))) <= 76
    assert body(parsed(content), "plain") == text + "\n"


@pytest.mark.parametrize("where", ["text", "html"])
def test_a_body_that_is_not_unicode_text_is_refused(where: str) -> None:
    with pytest.raises(TemplateError) as caught:
        mail(**{where: "broken \ud83d half"})
    assert caught.value.code == "invalid_text"
    assert caught.value.__suppress_context__


def test_a_body_cannot_end_its_part() -> None:
    boundary = f"--=_{MESSAGE_ID.hex}_0"
    hostile = f"a\n{boundary}--\n\nX-Evil: 1\n{boundary}\nContent-Type: text/html\n\n<b>evil</b>\n"
    message = parsed(mail(text=hostile, html=hostile))
    assert [part.get_content_type() for part in message.walk()][1:] == ["text/plain", "text/html"]
    assert body(message, "plain") == hostile
    assert body(message, "html") == hostile


_printable = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
_names = st.text(_printable | st.sampled_from(list(',;:()<>"@\\=?')), max_size=120)
_bodies = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@settings(deadline=None)
@given(name=_names, subject=_names, filename=_names, text=_bodies, html=_bodies)
@example(name="=?", subject="=?utf-8?q??=", filename="*'%", text="\r.\r\n", html="\x0c\x85")
@example(name='"', subject="\u3000 a", filename='"', text="From a\n ", html="\u2028\x00")
def test_whatever_goes_in_comes_back_as_the_same_parts(
    name: str, subject: str, filename: str, text: str, html: str
) -> None:
    subject = f"s{subject}"
    content = mail(
        subject, text, html, shown=Addressing(name), attachments=[attached(f"f{filename}.bin")]
    )
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert max(map(len, lines)) <= 998
    assert not any(b"\n" in line or b"\r" in line or b"\x00" in line for line in lines)
    assert b"8bit" not in content
    assert b"?q??=" not in content
    assert b"?b??=" not in content
    message = parsed(content)
    assert not message.defects
    assert set(message.keys()) == HEADERS - {"Reply-To"}
    assert message["Subject"] == unspaced(subject)
    assert read(content)[0].sender == (unspaced(name), ENVELOPE.sender)
    assert [box.addr_spec for box in message["To"].addresses] == list(ENVELOPE.to)
    assert body(message, "plain") == normal(text)
    assert body(message, "html") == normal(html)
    (part,) = message.iter_attachments()
    shown = part.get_filename()
    assert shown is not None
    assert shown.endswith(".bin")
    assert not set(shown) & set("/\\\u202e")
    assert part.get_content() == b"\x00\xff%PDF"
