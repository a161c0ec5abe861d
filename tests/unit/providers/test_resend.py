"""Resend over real sockets: each answer of the table, each way to get none, and its keys."""

from __future__ import annotations

import base64
import gc
import logging
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease.config import Resend
from postlease.errors import UnavailableError
from postlease.mime import compose, message_identifier
from postlease.model import (
    Accepted,
    Addressing,
    Attachment,
    Blocked,
    Deferred,
    Envelope,
    Mailbox,
    Outcome,
    OutgoingMail,
    Rejected,
    RenderedMail,
    Throttled,
    Unknown,
    Unreachable,
    event_id,
)
from postlease.providers import resend
from postlease.providers.resend import ResendProvider
from postlease.providers.resend_fields import fields
from tests.doubles.certificates import Certificate
from tests.doubles.resend_server import (
    API_KEY,
    LOST,
    RUNNING,
    STALLED,
    Answer,
    ResendServer,
    refusal,
)
from tests.doubles.times import HASTY, PATIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postlease.config import TimeRules

ENVELOPE = Envelope(
    sender="no-reply@mail.example.com",
    to=("ada@example.com",),
    cc=("cleo@example.net",),
    bcc=("hidden@example.org",),
)
SHOWN = Addressing(reply_to=Mailbox("", "help@example.com"))
RENDERED = RenderedMail("Grüße", "Hällo\n", "<p>Hällo</p>\n", "v")


def mail(
    attempt: int = 1,
    message_id: UUID | None = None,
    *,
    rendered: RenderedMail = RENDERED,
    attachments: tuple[Attachment, ...] = (),
    shown: Addressing = SHOWN,
) -> OutgoingMail:
    message_id = message_id or uuid4()
    content = compose(
        envelope=ENVELOPE,
        rendered=rendered,
        attachments=attachments,
        message_id=message_id,
        attempt=attempt,
        sent_at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=attempt),
        shown=shown,
    )
    return OutgoingMail(
        message_id=message_id,
        attempt=attempt,
        idempotency_key=str(message_id),
        envelope=ENVELOPE,
        content=content,
        tags={"team": "billing"},
    )


def provider(
    url: str, *, api_key: Callable[[], str] = lambda: API_KEY, times: TimeRules = PATIENT
) -> ResendProvider:
    return ResendProvider(Resend("arn:key", url), times, api_key=api_key)


@pytest.fixture(scope="module")
def running() -> Iterator[ResendServer]:
    with ResendServer() as server:
        yield server


@pytest.fixture
def server(running: ResendServer) -> ResendServer:
    running.forget()
    return running


def test_a_mail_goes_out_as_fields_under_its_key(server: ResendServer) -> None:
    sent = mail(3, attachments=(Attachment("Prüf.pdf", "application/pdf", b"%PDF\x00"),))
    outcome = provider(server.url).send(sent)
    [(identifier, body)] = server.mails.items()
    assert outcome == Accepted(identifier)
    [request] = server.requests
    assert request.path == "/emails"
    assert request.key == str(sent.message_id)
    assert request.headers["authorization"] == f"Bearer {API_KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"]
    assert body == {
        "from": "no-reply@mail.example.com",
        "to": ["ada@example.com"],
        "cc": ["cleo@example.net"],
        "bcc": ["hidden@example.org"],
        "reply_to": ["help@example.com"],
        "subject": "Grüße",
        "text": "Hällo\n",
        "html": "<p>Hällo</p>\n",
        "headers": {
            "Message-ID": message_identifier(sent.message_id, ENVELOPE.sender),
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
            "X-Postlease-Id": event_id(sent.message_id),
        },
        "attachments": [
            {
                "filename": "Prüf.pdf",
                "content_type": "application/pdf",
                "content": base64.b64encode(b"%PDF\x00").decode(),
            }
        ],
        "tags": [
            {"name": "postlease-id", "value": str(sent.message_id)},
            {"name": "team", "value": "billing"},
        ],
    }


def test_the_recipients_are_those_of_the_envelope_alone() -> None:
    """Whoever was struck at the dispatch check still stands in the composed header."""
    sent = mail()
    body = fields(replace(sent, envelope=Envelope(ENVELOPE.sender, ENVELOPE.to, (), ())))
    assert body["to"] == ["ada@example.com"]
    assert body.keys().isdisjoint({"cc", "bcc"})


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Ada", "Ada <no-reply@mail.example.com>"),
        ("Müller, Jürgen", '"Müller, Jürgen" <no-reply@mail.example.com>'),
        ("=?utf-8?q?Eve?=", '"=?utf-8?q?Eve?=" <no-reply@mail.example.com>'),
        ('Ada "the" Lovelace', '"Ada \\"the\\" Lovelace" <no-reply@mail.example.com>'),
    ],
)
def test_the_sender_s_name_stands_before_its_address(name: str, written: str) -> None:
    assert fields(mail(shown=Addressing(name)))["from"] == written


@pytest.mark.parametrize(
    "name",
    [
        "Müller, Jürgen",
        "Почта 📬 " * 9 + "x",
        "請求書" * 40,
        "=?utf-8?q?Eve?=",
        'a"\\b',
        "a.b",
        "x" * 90,
    ],
)
def test_every_name_stands_whole_before_its_address(name: str) -> None:
    """MIM-01, MIM-10: names that take several encoded words lose none of them and gain no blank."""
    named = {"ada@example.com": name, "cleo@example.net": name, "hidden@example.org": name}
    shown = Addressing(name, named, Mailbox(name, "help@example.com"))
    body = fields(mail(shown=shown))
    for field, address in (
        (body["from"], ENVELOPE.sender),
        (body["to"][0], "ada@example.com"),
        (body["cc"][0], "cleo@example.net"),
        (body["reply_to"][0], "help@example.com"),
    ):
        assert field.endswith(f" <{address}>")
        written = field.removesuffix(f" <{address}>")
        if written.startswith('"'):
            written = written[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        assert written == name
    assert body["bcc"] == ["hidden@example.org"]


def test_one_address_has_in_each_field_the_name_of_that_field() -> None:
    shown = Addressing("", {"ada@example.com": "Ada"}, Mailbox("Desk", "ada@example.com"))
    body = fields(mail(shown=shown))
    assert body["to"] == ["Ada <ada@example.com>"]
    assert body["reply_to"] == ["Desk <ada@example.com>"]


def test_an_inline_image_keeps_its_content_id_and_nothing_else_has_one() -> None:
    rendered = RenderedMail("Logo", "Logo\n", '<img src="cid:logo.1">\n', "v")
    images = tuple(
        Attachment(f"{content_id}.png", "image/png", b"PNG", content_id)
        for content_id in ("logo.1", "unused")
    )
    body = fields(mail(rendered=rendered, attachments=images))
    assert body["html"] == rendered.html
    content = base64.b64encode(b"PNG").decode()
    assert sorted(body["attachments"], key=lambda found: found["filename"]) == [
        {
            "filename": "logo.1.png",
            "content_type": "image/png",
            "content": content,
            "content_id": "logo.1",
        },
        {"filename": "unused.png", "content_type": "image/png", "content": content},
    ]


LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=200
)


@given(subject=LINES.filter(lambda text: text.strip() != ""), text=LINES, html=LINES)
def test_what_was_rendered_is_what_is_sent(subject: str, text: str, html: str) -> None:
    body = fields(mail(rendered=RenderedMail(subject, f"{text}\n", f"{html}\n", "v")))
    assert body["subject"].split() == subject.split()
    assert body["text"] == f"{text}\n"
    assert body["html"] == f"{html}\n"


@given(content=st.binary(max_size=300))
def test_an_attachment_arrives_byte_by_byte(content: bytes) -> None:
    body = fields(mail(attachments=(Attachment("a.bin", "application/zip", content),)))
    [attachment] = body["attachments"]
    assert base64.b64decode(attachment["content"], validate=True) == content


def test_two_attempts_at_one_message_are_one_request(server: ResendServer) -> None:
    """Resend compares bodies: neither the attempt's number nor its time may stand in one."""
    message_id = uuid4()
    client = provider(server.url)
    first = client.send(mail(1, message_id))
    assert isinstance(first, Accepted)
    assert client.send(mail(2, message_id)) == first
    assert len(server.mails) == 1


def test_another_body_under_a_used_key_means_that_the_mail_was_accepted(
    server: ResendServer,
) -> None:
    message_id = uuid4()
    client = provider(server.url)
    client.send(mail(1, message_id))
    changed = mail(2, message_id, rendered=RenderedMail("Other", "Other\n", "<p>Other</p>\n", "v2"))
    assert client.send(changed) == Accepted(f"resend-key:{message_id}", is_earlier=True)
    assert [body["subject"] for body in server.mails.values()] == ["Grüße"]


def test_a_key_whose_first_request_still_runs_is_deferred() -> None:
    message_id = uuid4()
    with ResendServer() as server, ThreadPoolExecutor(1) as threads:
        server.plan.append(RUNNING)
        running = threads.submit(provider(server.url).send, mail(1, message_id))
        assert server.started.wait(30)
        assert provider(server.url).send(mail(2, message_id)) == Deferred("key_in_use")
        server.finish()
        assert isinstance(running.result(), Accepted)
        assert len(server.mails) == 1


ANSWERS: list[tuple[int, str, str, Outcome]] = [
    # the key
    (409, "concurrent_idempotent_requests", "", Deferred("key_in_use")),
    (409, "something_new", "", Unknown("conflict")),
    (400, "invalid_idempotency_key", "", Blocked("key_refused")),
    # too fast, and enough
    (429, "rate_limit_exceeded", "Too many requests.", Throttled("rate_exceeded")),
    (429, "daily_quota_exceeded", "Daily quota reached.", Blocked("daily_quota")),
    (429, "monthly_quota_exceeded", "Monthly quota reached.", Blocked("monthly_quota")),
    (429, "something_new", "", Throttled("throttled")),
    # credentials
    (401, "missing_api_key", "Missing API key.", Blocked("credentials_missing")),
    (401, "restricted_api_key", "Restricted.", Blocked("credentials_refused")),
    (401, "validation_error", "API key is invalid", Blocked("credentials_refused")),
    (400, "validation_error", "API key is invalid", Blocked("credentials_refused")),
    (403, "invalid_api_key", "API key is invalid.", Blocked("credentials_refused")),
    (403, "invalid_api_Key", "API key is invalid.", Blocked("credentials_refused")),
    (403, "suspended_api_key", "Suspended.", Blocked("account_suspended")),
    (403, "something_new", "", Blocked("credentials_refused")),
    # our identity
    (
        403,
        "validation_error",
        "The mail.example.com domain is not verified. Please, add and verify your domain.",
        Blocked("sender_unverified"),
    ),
    (
        403,
        "validation_error",
        "You can only send testing emails to your own email address (ada@example.com).",
        Blocked("testing_only"),
    ),
    (403, "invalid_from_address", "Invalid `from` field.", Blocked("sender_refused")),
    (422, "invalid_from_address", "Invalid `from` field.", Blocked("sender_refused")),
    # the set-up
    (404, "not_found", "The requested endpoint does not exist.", Blocked("not_found")),
    (405, "method_not_allowed", "", Blocked("unexpected_answer")),
    (302, "", "", Blocked("unexpected_answer")),
    # refused before any work
    (503, "service_unavailable", "Try again.", Unreachable("service_unavailable")),
    (408, "", "", Unreachable("request_timeout")),
    # may have been sent on
    (500, "application_error", "An unexpected error occurred.", Unknown("server_error")),
    (500, "internal_server_error", "", Unknown("server_error")),
    (503, "", "", Unknown("server_error")),
    (502, "bad_gateway", "", Unknown("server_error")),
    (504, "", "", Unknown("server_error")),
    # this message
    (400, "validation_error", "Invalid `to` field.", Rejected("bad_request")),
    (422, "validation_error", "Invalid `to` field.", Rejected("bad_request")),
    (422, "missing_required_field", "Missing `html`.", Rejected("bad_request")),
    (422, "invalid_parameter", "", Rejected("bad_request")),
    (422, "invalid_attachment", "", Rejected("invalid_attachment")),
    (413, "", "", Rejected("too_large")),
    (451, "security_error", "A security issue was found.", Rejected("security_error")),
]


@pytest.mark.parametrize(
    ("status", "name", "text", "outcome"),
    ANSWERS,
    ids=[f"{a[0]}-{a[1]}-{a[2][:30]}" for a in ANSWERS],
)
def test_an_answer_means_what_the_table_says_after_one_request(
    server: ResendServer, status: int, name: str, text: str, outcome: Outcome
) -> None:
    server.plan.append(refusal(status, name, text))
    assert provider(server.url).send(mail()) == outcome
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(503, b"<html>Service Unavailable</html>"), Unknown("server_error")),
        (Answer(429, b""), Throttled("throttled")),
        (Answer(403, b"error code: 1010"), Blocked("credentials_refused")),
        (Answer(422, b"[]"), Rejected("bad_request")),
        (Answer(200, b"{}"), Unknown("unreadable_answer")),
        (Answer(200, b'{"id": 7}'), Unknown("unreadable_answer")),
        (Answer(200, b"<html>"), Unknown("unreadable_answer")),
        (Answer(200, b'{"id": "resend-1"}', cut_at=9), Unknown("unreadable_answer")),
        (Answer(201, b'{"id": "resend-1"}'), Accepted("resend-1")),
    ],
)
def test_an_answer_without_resend_s_form_is_judged_by_its_status(
    server: ResendServer, answer: Answer, outcome: Outcome
) -> None:
    server.plan.append(answer)
    assert provider(server.url).send(mail()) == outcome
    assert len(server.requests) == 1


def test_a_provider_that_loses_each_first_answer_sees_one_request_per_attempt() -> None:
    """SES-08, with a key: the second attempt is answered with what the first was accepted as."""
    messages = [uuid4() for _ in range(5)]
    with ResendServer(loses_first=True) as server:
        client = provider(server.url)
        for message_id in messages:
            assert client.send(mail(1, message_id)) == Unknown("connection_closed")
            again = client.send(mail(2, message_id))
            assert isinstance(again, Accepted)
            assert again.provider_message_id in server.mails
        assert server.asked() == {str(message_id): 2 for message_id in messages}
        assert len(server.mails) == len(messages)


def test_an_answer_that_never_comes_is_unknown_after_the_read_timeout() -> None:
    with ResendServer() as server:
        server.plan.append(STALLED)
        assert provider(server.url, times=HASTY).send(mail()) == Unknown("read_timeout")
        assert len(server.requests) == 1


def test_an_answer_that_is_not_http_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:

        def babble() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"220 relay.example ESMTP\r\n")

        done = threads.submit(babble)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert provider(url).send(mail()) == Unknown("unreadable_answer")
        done.result()


def test_nobody_at_the_endpoint_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = provider(f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert client.send(mail()) == Unreachable("connect_failed")


def test_a_connection_that_is_never_taken_up_is_unreachable() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.settimeout(0)
            filler.connect_ex(full.getsockname())
        try:
            client = provider(f"http://127.0.0.1:{full.getsockname()[1]}", times=HASTY)
            assert client.send(mail()) == Unreachable("connect_timeout")
        finally:
            for filler in fillers:
                filler.close()


def test_a_server_without_a_trusted_certificate_gets_nothing(tmp_path: Path) -> None:
    with ResendServer(Certificate(tmp_path).server_context()) as impostor:
        assert provider(impostor.url).send(mail()) == Unreachable("tls_failed")
        assert impostor.requests == []


def test_a_server_that_speaks_no_tls_gets_nothing(server: ResendServer) -> None:
    client = provider(server.url.replace("http:", "https:"))
    assert client.send(mail()) == Unreachable("tls_failed")
    assert server.requests == []


def test_a_key_that_cannot_be_read_is_not_the_message_s_fault(server: ResendServer) -> None:
    def unavailable() -> str:
        raise UnavailableError("the secret store did not answer")

    client = provider(server.url, api_key=unavailable)
    assert client.send(mail()) == Unreachable("credentials_unavailable")
    for unusable in ("re_\r\nX: y", "re_ü"):
        client = provider(server.url, api_key=lambda text=unusable: text)  # type: ignore[misc]
        assert client.send(mail()) == Blocked("credentials_refused")
    assert server.requests == []


def test_a_wrong_key_blocks_and_a_right_one_is_used_as_soon_as_it_is_there(
    server: ResendServer,
) -> None:
    keys = iter(["re_old", API_KEY])
    client = provider(server.url, api_key=lambda: next(keys))
    assert client.send(mail()) == Blocked("credentials_refused")
    assert isinstance(client.send(mail()), Accepted)


def test_a_mail_that_would_be_refused_for_its_size_is_not_uploaded(server: ResendServer) -> None:
    larger = replace(mail(), content=b"x" * (resend.LARGEST + 1))
    assert provider(server.url).send(larger) == Rejected("too_large", is_answer=False)
    assert server.requests == []


def test_threads_share_kept_connections() -> None:
    with ResendServer() as server:
        client = provider(server.url)
        gate = threading.Barrier(4)
        sent = [mail() for _ in range(12)]

        def send(message: OutgoingMail) -> Outcome:
            if message in sent[:4]:
                gate.wait(5)
            return client.send(message)

        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(send, sent))
        assert all(isinstance(outcome, Accepted) for outcome in outcomes)
        assert server.asked() == {str(message.message_id): 1 for message in sent}
        assert server.connections <= 4


def test_a_kept_connection_that_the_other_side_closed_is_replaced_before_the_request() -> None:
    with ResendServer() as server:
        client = provider(server.url)
        said = b'{"id": "resend-1"}'
        server.plan.append(Answer(200, said, cut_at=len(said)))  # and then it hangs up
        assert client.send(mail()) == Accepted("resend-1")
        [(kept, _)] = client.connections.idle
        assert select.select([kept.sock], [], [], 10)[0]
        assert isinstance(client.send(mail()), Accepted)
        assert (server.connections, len(server.requests)) == (2, 2)


def test_a_provider_that_is_let_go_closes_its_connections(server: ResendServer) -> None:
    client = provider(server.url)
    client.send(mail())
    [(kept, _)] = client.connections.idle
    del client
    gc.collect()
    assert kept.sock is None


def test_the_provider_s_text_reaches_no_log(
    server: ResendServer, caplog: pytest.LogCaptureFixture
) -> None:
    """RET-05."""
    server.plan.extend([refusal(422, "validation_error", "Invalid `to`: ada@example.com"), LOST])
    client = provider(server.url)
    with caplog.at_level(logging.INFO):
        client.send(mail())
        client.send(mail())
    assert "ada" not in caplog.text
