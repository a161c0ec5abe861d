"""An SMTP relay over real sockets: each step, each reply, each way to break off."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING
from uuid import UUID

import boto3
import pytest

from postlease import secret_store
from postlease.config import Smtp
from postlease.errors import UnavailableError
from postlease.mime import message_identifier
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Envelope,
    Outcome,
    OutgoingMail,
    Rejected,
    Throttled,
    Unknown,
    Unreachable,
    event_id,
)
from postlease.providers.smtp import SmtpProvider, stored_credentials
from tests.doubles.certificates import Certificate
from tests.doubles.smtp_server import HANG_UP, SILENCE, Reply, SmtpServer, plain_login
from tests.doubles.times import HASTY, PATIENT

if TYPE_CHECKING:
    from pathlib import Path

    from postlease.config import TimeRules

MESSAGE_ID = UUID("01920000-0000-7000-8000-00000000002a")
ENVELOPE = Envelope(
    sender="no-reply@mail.example.com",
    to=("ada@example.com", "bob@example.com"),
    cc=("cleo@example.net",),
    bcc=("hidden@example.org",),
)
MAIL = OutgoingMail(
    message_id=MESSAGE_ID,
    attempt=1,
    idempotency_key=str(MESSAGE_ID),
    envelope=ENVELOPE,
    content=b"Subject: x\r\n\r\n.hidden dot\r\n..\r\n.\r\nend",
    tags={},
)
ACCEPTED = Accepted(message_identifier(MESSAGE_ID, ENVELOPE.sender))
RECIPIENTS = [f"RCPT TO:<{address}>" for address in ENVELOPE.recipients]


def relay(server: SmtpServer, security: str = "none", host: str = "127.0.0.1") -> Smtp:
    return Smtp(host=host, port=server.port, security=security, credentials_secret_arn=None)


def send(server: SmtpServer, times: TimeRules = PATIENT) -> Outcome:
    return SmtpProvider(relay(server), times).send(MAIL)


def test_a_mail_goes_to_everybody_in_the_envelope_and_arrives_byte_for_byte() -> None:
    with SmtpServer() as server:
        assert send(server) == ACCEPTED
    assert server.texts == [MAIL.content + b"\r\n"]
    size = len(MAIL.content)
    assert [command.decode() for command in server.commands] == [
        "ehlo mail.example.com",
        f"MAIL FROM:<{ENVELOPE.sender}> SIZE={size}",
        *RECIPIENTS,
        "DATA",
        "QUIT",
    ]


def test_a_relay_that_knows_no_extensions_is_served_too() -> None:
    with SmtpServer(replies={"ehlo": b"502 what?"}) as server:
        assert send(server) == ACCEPTED
    assert b"helo mail.example.com" in server.commands
    assert f"MAIL FROM:<{ENVELOPE.sender}>".encode() in server.commands


UNVERIFIED = (
    b"554 Message rejected: Email address is not verified. "
    b"The following identities failed the check in region EU-WEST-1: "
)
REPLIES: list[tuple[str, bytes, Outcome]] = [
    ("greeting", b"421 busy", Unreachable("service_closing")),
    ("greeting", b"450 busy", Unreachable("service_unavailable")),
    ("greeting", b"554 no service here", Blocked("service_refused")),
    ("greeting", b"hello", Unreachable("unreadable_answer")),
    ("greeting", b"220 " + b"x" * 10_000, Unreachable("unreadable_answer")),
    ("MAIL", b"421 closing", Unreachable("service_closing")),
    ("MAIL", b"451 not now", Deferred("sender_deferred")),
    ("MAIL", b"553 not your domain", Blocked("sender_refused")),
    ("MAIL", b"530 authentication required", Blocked("login_required")),
    ("MAIL", b"538 encryption required", Blocked("login_required")),
    ("MAIL", b"552 message too large", Rejected("too_large")),
    ("MAIL", b"450 4.7.1 Too many messages", Throttled("rate_exceeded")),
    ("MAIL", b"454 Throttling failure: Daily message quota exceeded.", Blocked("daily_quota")),
    ("DATA", b"421 closing", Unreachable("service_closing")),
    ("DATA", b"451 not now", Deferred("message_deferred")),
    ("DATA", b"554 no valid recipients", Rejected("message_refused")),
    ("DATA", b"250 what?", Unreachable("unreadable_answer")),
    ("text", b"421 closing", Unreachable("service_closing")),
    ("text", b"451 not now", Deferred("message_deferred")),
    ("text", b"550 spam", Rejected("message_refused")),
    ("text", b"552 too large", Rejected("too_large")),
    ("text", b"454 Throttling failure: Maximum sending rate exceeded", Throttled("rate_exceeded")),
    ("text", b"554 Daily message quota exceeded", Blocked("daily_quota")),
    ("text", b"554 Sending suspended for this account", Blocked("account_suspended")),
    ("text", b"554 Sending paused for this account", Blocked("sending_paused")),
    ("text", b"554 Email address is not verified", Blocked("sender_unverified")),
    ("text", b"354 what?", Unknown("unreadable_answer")),
    ("text", b"kept", Unknown("unreadable_answer")),
    (
        "text",
        UNVERIFIED + b"ada@example.com",
        Rejected("recipient_unverified"),
    ),
    (
        "text",
        UNVERIFIED + b"no-reply@mail.example.com",
        Blocked("sender_unverified"),
    ),
]


@pytest.mark.parametrize(
    ("step", "reply", "outcome"),
    REPLIES,
    ids=[f"{step}-{reply[:25].decode()}" for step, reply, _ in REPLIES],
)
def test_a_reply_means_what_its_step_and_code_say(
    step: str, reply: bytes, outcome: Outcome
) -> None:
    with SmtpServer(replies={step: reply}) as server:
        assert send(server) == outcome
    assert server.connections == 1


@pytest.mark.parametrize("ending", [HANG_UP, SILENCE], ids=["disconnect", "silence"])
@pytest.mark.parametrize("step", ["greeting", "ehlo", "MAIL", RECIPIENTS[1], "DATA"])
def test_a_conversation_that_breaks_off_before_the_text_reached_nobody(
    step: str, ending: Reply
) -> None:
    with SmtpServer(replies={step: ending}) as server:
        assert send(server, HASTY) == Unreachable("connection_closed")
    assert server.texts == []


@pytest.mark.parametrize("ending", [HANG_UP, SILENCE, b"250 " + b"x" * 10_000])
def test_no_answer_to_the_text_is_unknown_and_the_text_was_sent_once(ending: Reply) -> None:
    with SmtpServer(replies={"text": ending}) as server:
        assert send(server, HASTY) == Unknown("answer_lost")
    assert len(server.texts) == 1


def test_a_conversation_ends_within_connect_and_read_timeout_together() -> None:
    """Each answer alone is quick enough; eight of them are not."""
    limit = (HASTY.connect_timeout + HASTY.read_timeout).total_seconds()
    with SmtpServer(delay=limit / 6) as server:
        assert send(server, HASTY) == Unreachable("too_slow")
    assert server.texts == []


def test_time_spent_on_credentials_is_not_given_back() -> None:
    def slow() -> tuple[str, str]:
        time.sleep((HASTY.connect_timeout + HASTY.read_timeout).total_seconds())
        return "user", "secret"

    with SmtpServer() as server:
        provider = SmtpProvider(relay(server), HASTY, credentials=slow)
        assert provider.send(MAIL) == Unreachable("too_slow")
    assert server.connections == 0


@pytest.mark.parametrize(
    ("refused", "outcome", "delivered"),
    [
        ({1: b"550 unknown"}, ACCEPTED, True),
        ({2: b"550 unknown", 3: b"551 moved"}, ACCEPTED, True),
        ({0: b"550 unknown", 1: b"550 unknown"}, Rejected("recipient_refused"), False),
        (dict.fromkeys(range(4), b"550 unknown"), Rejected("recipient_refused"), False),
        ({1: b"450 greylisted"}, Deferred("recipient_deferred"), False),
        ({0: b"550 unknown", 3: b"452 too many"}, Deferred("recipient_deferred"), False),
        ({1: b"421 closing"}, Unreachable("service_closing"), False),
        ({1: b"454 Throttling failure"}, Deferred("recipient_deferred"), False),
        ({1: b"530 log in"}, Blocked("login_required"), False),
    ],
)
def test_recipients_are_refused_one_by_one_and_nobody_gets_a_mail_twice(
    refused: dict[int, bytes],
    outcome: Outcome,
    delivered: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    replies: dict[str, Reply] = {RECIPIENTS[place]: reply for place, reply in refused.items()}
    with SmtpServer(replies=replies) as server, caplog.at_level(logging.INFO):
        assert send(server) == outcome
    assert bool(server.texts) is delivered
    assert "@" not in caplog.text
    assert (event_id(MESSAGE_ID) in caplog.text) is delivered


def test_nobody_at_the_port_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = Smtp("127.0.0.1", unused.getsockname()[1], "none", None)
        assert SmtpProvider(nobody, PATIENT).send(MAIL) == Unreachable("connect_failed")


def test_a_connection_that_is_never_taken_up_is_unreachable() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.settimeout(0)
            filler.connect_ex(full.getsockname())
        deaf = Smtp("127.0.0.1", full.getsockname()[1], "none", None)
        try:
            assert SmtpProvider(deaf, HASTY).send(MAIL) == Unreachable("connect_timeout")
        finally:
            for filler in fillers:
                filler.close()


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_mail_travels_encrypted_to_a_relay_with_a_trusted_certificate(
    security: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    with SmtpServer(
        extensions=(b"STARTTLS",),
        tls=certificate.server_context(),
        tls_from_start=security == "tls",
    ) as server:
        provider = SmtpProvider(relay(server, security, host), PATIENT)
        assert provider.send(MAIL) == ACCEPTED
        assert provider.send(MAIL) == ACCEPTED
    if security == "starttls":
        assert server.commands[:3] == [
            b"ehlo mail.example.com",
            b"STARTTLS",
            b"ehlo mail.example.com",
        ]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_relay_without_a_trusted_certificate_gets_nothing(security: str, tmp_path: Path) -> None:
    with SmtpServer(
        extensions=(b"STARTTLS",),
        tls=Certificate(tmp_path).server_context(),
        tls_from_start=security == "tls",
    ) as server:
        provider = SmtpProvider(relay(server, security), PATIENT)
        assert provider.send(MAIL) == Unreachable("tls_failed")
    assert not any(command.startswith(b"MAIL") for command in server.commands)


@pytest.mark.parametrize(
    ("extensions", "reply"),
    [((), b"220 go on"), ((b"STARTTLS",), b"454 not now"), ((b"STARTTLS",), b"250 what?")],
)
def test_a_relay_that_will_not_encrypt_gets_nothing(
    extensions: tuple[bytes, ...], reply: bytes
) -> None:
    with SmtpServer(extensions=extensions, replies={"STARTTLS": reply}) as server:
        provider = SmtpProvider(relay(server, "starttls"), PATIENT)
        assert provider.send(MAIL) == Unreachable("tls_unavailable")
    assert not any(command.startswith(b"MAIL") for command in server.commands)


LOGINS: list[tuple[bytes, Reply, Outcome]] = [
    (b"AUTH PLAIN", b"235 welcome", ACCEPTED),
    (b"AUTH PLAIN", b"535 wrong", Blocked("credentials_refused")),
    (b"AUTH PLAIN", b"534 mechanism too weak", Blocked("login_required")),
    (b"AUTH PLAIN", b"554 no", Blocked("credentials_refused")),
    (b"AUTH PLAIN", b"454 temporary failure", Unreachable("login_unavailable")),
    (b"AUTH PLAIN", b"421 closing", Unreachable("service_closing")),
    (b"AUTH PLAIN", b"454 Throttling failure: Maximum sending rate", Throttled("rate_exceeded")),
    (b"AUTH PLAIN", HANG_UP, Unreachable("connection_closed")),
    (b"AUTH XOAUTH2", b"235 welcome", Blocked("login_unsupported")),
    (b"SIZE", b"235 welcome", Blocked("login_unsupported")),
]


@pytest.mark.parametrize(("offered", "reply", "outcome"), LOGINS)
def test_a_login_comes_before_the_mail_and_its_refusal_is_not_the_message_s_fault(
    offered: bytes, reply: Reply, outcome: Outcome
) -> None:
    with SmtpServer(extensions=(offered,), replies={"AUTH": reply}) as server:
        provider = SmtpProvider(relay(server), PATIENT, credentials=lambda: ("user", "secret"))
        assert provider.send(MAIL) == outcome
    assert (plain_login("user", "secret") in server.commands) is (offered == b"AUTH PLAIN")
    assert bool(server.texts) is (outcome == ACCEPTED)


def test_credentials_that_smtp_cannot_carry_are_refused_here() -> None:
    with SmtpServer(extensions=(b"AUTH PLAIN",)) as server:
        provider = SmtpProvider(relay(server), PATIENT, credentials=lambda: ("user", "gehéim"))
        assert provider.send(MAIL) == Blocked("credentials_refused")


def test_a_secret_store_that_does_not_answer_is_unreachable() -> None:
    def silent() -> tuple[str, str]:
        raise UnavailableError("the secret store did not answer")

    with SmtpServer() as server:
        provider = SmtpProvider(relay(server), PATIENT, credentials=silent)
        assert provider.send(MAIL) == Unreachable("credentials_unavailable")
    assert server.connections == 0


def test_credentials_are_read_from_their_secret(
    monkeypatch: pytest.MonkeyPatch, aws: dict[str, str]
) -> None:
    # Not under moto's decorator: it empties the emulated AWS that the whole run shares.
    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    secret_store.provider.cache_clear()
    secret = json.dumps({"username": "user", "password": "secret"})
    store = boto3.client("secretsmanager")
    arn = store.create_secret(Name="relay", SecretString=secret)["ARN"]
    assert stored_credentials(arn)() == ("user", "secret")
    secret_store.provider.cache_clear()


def test_an_accepted_mail_is_reported_without_waiting_for_a_farewell() -> None:
    """The double never answers QUIT; a client that waits would need its whole read timeout."""
    finished = threading.Event()

    def work() -> None:
        assert send(server) == ACCEPTED
        finished.set()

    with SmtpServer() as server:
        thread = threading.Thread(target=work)
        thread.start()
        assert finished.wait(5)
        thread.join()
    assert server.commands[-1] == b"QUIT"
