"""SES over real sockets, signed here and by the real SDK: each answer, and each way to get none."""

from __future__ import annotations

import email
import email.policy
import functools
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol
from uuid import UUID, uuid4

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import ThreadedMotoServer
from moto.ses.models import ses_backends

from postlease.errors import UnavailableError
from postlease.mime import compose
from postlease.model import (
    Accepted,
    Attachment,
    Blocked,
    Envelope,
    Outcome,
    OutgoingMail,
    Rejected,
    RenderedMail,
    Throttled,
    Unknown,
    Unreachable,
)
from postlease.providers import ses
from postlease.providers.ses import SesProvider
from tests.doubles.certificates import Certificate
from tests.doubles.ses_server import LOST, SEND_PATH, STALLED, Answer, SesServer, refusal
from tests.doubles.times import HASTY, PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postlease.config import TimeRules

ENVELOPE = Envelope(
    sender="no-reply@mail.example.com",
    to=("ada@example.com",),
    cc=("cleo@example.net",),
    bcc=("hidden@example.org",),
)
PDF = Attachment("Prüf.pdf", "application/pdf", b"%PDF\x00")


def mail(
    attempt: int = 1, message_id: UUID | None = None, *, attachment: Attachment = PDF
) -> OutgoingMail:
    message_id = message_id or uuid4()
    content = compose(
        envelope=ENVELOPE,
        rendered=RenderedMail("Grüße", "Hällo\n", "<p>Hällo</p>\n", "v"),
        attachments=[attachment],
        message_id=message_id,
        attempt=attempt,
        sent_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return OutgoingMail(
        message_id=message_id,
        attempt=attempt,
        idempotency_key=str(message_id),
        envelope=ENVELOPE,
        content=content,
        tags={"team": "billing"},
    )


ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}
"""Credentials and a region that are nobody's, and none of the machine's own."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def running() -> Iterator[SesServer]:
    with SesServer() as server:
        yield server


class Make(Protocol):
    """Makes a provider of the way that is asked about."""

    def __call__(
        self, times: TimeRules = PATIENT, *, configuration_set: str | None = "postlease"
    ) -> SesProvider: ...


@pytest.fixture(scope="module", params=[True, False], ids=["signed", "boto3"])
def provider(request: pytest.FixtureRequest) -> Make:
    """Both ways to call SES mean the same by the same: every test here is asked of each."""

    def make(
        times: TimeRules = PATIENT, *, configuration_set: str | None = "postlease"
    ) -> SesProvider:
        return SesProvider(
            times, configuration_set=configuration_set, connections=4, signs=request.param
        )

    return make


@pytest.fixture(scope="module")
def shared(running: SesServer, provider: Make) -> SesProvider:
    """A provider whose client, the slow part, is made once for all rows of the table."""
    made = provider()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL_SESV2", running.url)
        assert made.send(mail()) == Accepted("ses-1")
    return made


@pytest.fixture
def server(running: SesServer, monkeypatch: pytest.MonkeyPatch) -> SesServer:
    running.forget()
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", running.url)
    return running


def test_a_mail_goes_out_whole_to_its_envelope_with_its_tags(
    server: SesServer, provider: Make
) -> None:
    sent = mail(attempt=3)
    assert provider().send(sent) == Accepted("ses-1")
    (request,) = server.requests
    assert server.paths == [SEND_PATH]
    assert request["FromEmailAddress"] == ENVELOPE.sender
    assert request["Destination"] == {
        "ToAddresses": ["ada@example.com"],
        "CcAddresses": ["cleo@example.net"],
        "BccAddresses": ["hidden@example.org"],
    }
    assert request["ConfigurationSetName"] == "postlease"
    assert server.mails == [sent.content]
    assert server.tags() == [
        {"team": "billing", "postlease-id": str(sent.message_id), "postlease-attempt": "3"}
    ]


def test_what_is_sent_is_signed_as_aws_checks_it(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    """Signed again by AWS's own signer, out of what arrived."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    sender = provider()
    sender.send(mail())
    server.plan.append(quota("{}"))
    sender.sending_rate()
    for method, path, head, body in zip(
        ("POST", "GET"), server.paths, server.heads, server.bodies, strict=True
    ):
        given_ = head["authorization"]
        signed_names = given_.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        request = AWSRequest(method, server.url + path, data=body)
        for name in signed_names:
            request.headers[name] = head[name]
        request.context["timestamp"] = head["x-amz-date"]
        signer = SigV4Auth(Credentials("local", "local", "token"), "ses", "us-east-1")
        text = signer.string_to_sign(request, signer.canonical_request(request))
        assert given_.endswith(f"Signature={signer.signature(text, request)}")
        assert {"host", "x-amz-date", "x-amz-security-token"} <= set(signed_names)
        assert head["x-amz-security-token"] == "token"
        said = datetime.strptime(head["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert abs(datetime.now(UTC) - said) < timedelta(minutes=1)


def test_a_mail_cannot_take_the_tags_that_settle_it(server: SesServer, provider: Make) -> None:
    sent = replace(mail(), tags={"postlease-id": "other", "postlease-attempt": "9"})
    provider().send(sent)
    assert server.tags() == [{"postlease-id": str(sent.message_id), "postlease-attempt": "1"}]


def test_without_a_configuration_set_none_is_named(server: SesServer, provider: Make) -> None:
    provider(configuration_set=None).send(mail())
    assert "ConfigurationSetName" not in server.requests[0]


UNVERIFIED = (
    "Email address is not verified. The following identities failed the check in region US-EAST-1: "
)
ANSWERS: list[tuple[int, str, str, Outcome]] = [
    # throttled: every spelling, either status
    *[
        (status, code, "Rate exceeded", Throttled("rate_exceeded"))
        for status in (400, 429)
        for code in ("Throttling", "ThrottlingException", "TooManyRequestsException")
    ],
    *[
        (status, code, "Slow down.", Throttled("throttled"))
        for status, code in (
            (400, "Throttling"),
            (400, "ThrottlingException"),
            (400, "ThrottledException"),
            (400, "TooManyRequestsException"),
            (429, "TooManyRequestsException"),
            (400, "TooManyRequests"),
            (400, "RequestThrottled"),
            (400, "RequestThrottledException"),
            (503, "RequestLimitExceeded"),
            (400, "BandwidthLimitExceeded"),
            (503, "SlowDown"),
            (400, "PriorRequestNotComplete"),
            (429, "SomethingNew"),
        )
    ],
    (429, "TooManyRequestsException", "Maximum sending rate exceeded.", Throttled("rate_exceeded")),
    (400, "LimitExceededException", "Maximum sending rate exceeded.", Throttled("rate_exceeded")),
    # the quota of the day
    (429, "TooManyRequestsException", "Daily message quota exceeded.", Blocked("daily_quota")),
    (400, "LimitExceededException", "Daily message quota exceeded", Blocked("daily_quota")),
    (400, "Throttling", "Daily sending quota exceeded.", Blocked("daily_quota")),
    (400, "MessageRejected", "Maximum 24-hour send quota reached.", Blocked("daily_quota")),
    (400, "LimitExceededException", "There are too many instances.", Blocked("limit_exceeded")),
    # the account
    (400, "AccountSuspendedException", "Restricted.", Blocked("account_suspended")),
    (400, "MessageRejected", "Sending suspended for this account.", Blocked("account_suspended")),
    (400, "SendingPausedException", "Paused.", Blocked("sending_paused")),
    (400, "AccountSendingPausedException", "Paused.", Blocked("sending_paused")),
    (400, "ConfigurationSetSendingPausedException", "Paused.", Blocked("sending_paused")),
    (400, "BadRequestException", "Account is under review.", Blocked("sending_paused")),
    # our identity
    (400, "MailFromDomainNotVerifiedException", "No MX.", Blocked("mail_from_unverified")),
    (400, "MessageRejected", UNVERIFIED + ENVELOPE.sender, Blocked("sender_unverified")),
    (
        400,
        "MessageRejected",
        UNVERIFIED + "No-Reply@Mail.Example.com",
        Blocked("sender_unverified"),
    ),
    (400, "MessageRejected", UNVERIFIED + "mail.example.com", Blocked("sender_unverified")),
    (
        400,
        "MessageRejected",
        UNVERIFIED + "ada@example.com, <no-reply@mail.example.com>",
        Blocked("sender_unverified"),
    ),
    (400, "MessageRejected", "Email address is not verified.", Blocked("sender_unverified")),
    # the sandbox's recipients
    (400, "MessageRejected", UNVERIFIED + "ada@example.com", Rejected("recipient_unverified")),
    (
        400,
        "MessageRejected",
        UNVERIFIED + "x.no-reply@mail.example.com, ada@example.com.",
        Rejected("recipient_unverified"),
    ),
    # the set-up
    (
        400,
        "ConfigurationSetDoesNotExistException",
        "Gone.",
        Blocked("configuration_set_missing"),
    ),
    (
        400,
        "BadRequestException",
        "Configuration set <postlease> does not exist.",
        Blocked("configuration_set_missing"),
    ),
    (
        404,
        "NotFoundException",
        "Configuration set postlease not found.",
        Blocked("configuration_set_missing"),
    ),
    (404, "NotFoundException", "No such thing.", Blocked("not_found")),
    (404, "UnknownOperationException", "", Blocked("not_found")),
    (405, "MethodNotAllowed", "", Blocked("unexpected_answer")),
    (302, "Moved", "", Blocked("unexpected_answer")),
    # credentials
    *[
        (status, code, "The security token is expired", Blocked("credentials_expired"))
        for status, code in (
            (400, "ExpiredToken"),
            (403, "ExpiredTokenException"),
            (400, "RequestExpired"),
        )
    ],
    *[
        (
            status,
            code,
            "User is not authorized to perform ses:SendEmail",
            Blocked("credentials_refused"),
        )
        for status, code in (
            (403, "AccessDenied"),
            (403, "AccessDeniedException"),
            (400, "AccessDeniedException"),
            (403, "InvalidClientTokenId"),
            (403, "UnrecognizedClientException"),
            (403, "SignatureDoesNotMatch"),
            (403, "MissingAuthenticationTokenException"),
            (400, "IncompleteSignature"),
            (400, "NotAuthorized"),
            (403, "OptInRequired"),
            (403, "RequestTimeTooSkewed"),
            (401, "SomethingNew"),
            (403, "SomethingNew"),
        )
    ],
    # refused before any work
    (503, "ServiceUnavailable", "Try again.", Unreachable("service_unavailable")),
    (503, "ServiceUnavailableException", "", Unreachable("service_unavailable")),
    (500, "InternalFailure", "The message was not accepted.", Unreachable("not_accepted")),
    (408, "RequestTimeout", "", Unreachable("request_timeout")),
    (400, "RequestTimeoutException", "", Unreachable("request_timeout")),
    (408, "SomethingNew", "", Unreachable("request_timeout")),
    # nobody knows
    (500, "InternalFailure", "", Unknown("server_error")),
    (500, "ServiceUnavailable", "", Unknown("server_error")),
    (500, "InternalServerErrorException", "Oops", Unknown("server_error")),
    (502, "BadGateway", "", Unknown("server_error")),
    (503, "SomethingNew", "upstream reset", Unknown("server_error")),
    (504, "GatewayTimeout", "", Unknown("server_error")),
    # this message
    (400, "MessageRejected", "Transaction failed: bad content.", Rejected("message_rejected")),
    (400, "MessageRejected", "Address is on the suppression list", Rejected("message_rejected")),
    (400, "BadRequestException", "Missing final '@domain'", Rejected("bad_request")),
    (400, "InvalidParameterValue", "Illegal character", Rejected("bad_request")),
    (422, "UnprocessableEntity", "", Rejected("bad_request")),
    (413, "RequestEntityTooLarge", "", Rejected("too_large")),
]


@pytest.mark.parametrize(
    ("status", "code", "text", "outcome"),
    ANSWERS,
    ids=[f"{a[0]}-{a[1]}-{a[2][:30]}" for a in ANSWERS],
)
def test_an_answer_means_what_the_table_says_after_one_request(
    server: SesServer, shared: SesProvider, status: int, code: str, text: str, outcome: Outcome
) -> None:
    """SES-01, SES-03."""
    server.plan.append(refusal(status, code, text))
    assert shared.send(mail()) == outcome
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(503, b"<html>Service Unavailable</html>"), Unknown("server_error")),
        (Answer(502, b""), Unknown("server_error")),
        (Answer(429, b""), Throttled("throttled")),
        (Answer(403, b"<html>"), Blocked("credentials_refused")),
        (Answer(400, b""), Rejected("bad_request")),
        (Answer(200, b"{}"), Unknown("unreadable_answer")),
        (Answer(200, b"<html>"), Unknown("unreadable_answer")),
        (Answer(200, b'{"MessageId": "ses-1"}', cut_at=9), Unknown("unreadable_answer")),
    ],
)
def test_an_answer_without_ses_s_form_is_judged_by_its_status(
    server: SesServer, shared: SesProvider, answer: Answer, outcome: Outcome
) -> None:
    server.plan.append(answer)
    assert shared.send(mail()) == outcome
    assert len(server.requests) == 1


@pytest.mark.parametrize("raw", [b"<html>\r\n", b"HTTP/1.1 2xx OK\r\n\r\n", b"HTTP/1.1 200"])
def test_what_is_no_answer_of_http_is_unknown(
    server: SesServer, shared: SesProvider, raw: bytes
) -> None:
    server.plan.append(Answer(raw=raw))
    assert isinstance(shared.send(mail()), Unknown)
    assert len(server.requests) == 1


def test_an_answer_is_read_up_to_a_bound(server: SesServer) -> None:
    endless = b'{"MessageId": "ses-1"' + b" " * 2**17 + b"}"
    server.plan.append(Answer(200, endless))
    client = SesProvider(PATIENT, configuration_set=None, connections=1)
    assert client.send(mail()) == Unknown("unreadable_answer")
    assert client.send(mail()) == Accepted("ses-1")
    assert len(server.callers) == 2


def test_a_redirect_is_not_followed(server: SesServer, provider: Make) -> None:
    for status in (301, 307, 308):
        server.plan.append(Answer(status, b"", {"Location": server.url + SEND_PATH}))
        assert provider().send(mail()) == Blocked("unexpected_answer")
    assert len(server.requests) == 3


def test_a_mail_travels_encrypted_to_a_server_with_a_trusted_certificate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: Make
) -> None:
    certificate = Certificate(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate.path))
    with SesServer(certificate.server_context()) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", server.url)
        client = provider()
        assert client.send(mail()) == Accepted("ses-1")
        assert client.send(mail()) == Accepted("ses-1")
        assert (len(server.callers), len(server.requests)) == (1, 2)


def test_a_lost_answer_is_unknown_and_each_attempt_is_one_request(
    server: SesServer, provider: Make
) -> None:
    """SES-08: a provider that loses each first answer sees one request per attempt."""
    client = provider()
    messages = [uuid4() for _ in range(5)]
    for message_id in messages:
        server.plan.extend([LOST, Answer()])
        assert client.send(mail(1, message_id)) == Unknown("connection_closed")
        assert client.send(mail(2, message_id)) == Accepted("ses-1")
    asked = [(tags["postlease-id"], tags["postlease-attempt"]) for tags in server.tags()]
    assert asked == [(str(message_id), str(n)) for message_id in messages for n in (1, 2)]


def test_an_answer_that_never_comes_is_unknown_after_the_read_timeout(
    server: SesServer, provider: Make
) -> None:
    server.plan.append(STALLED)
    assert provider(HASTY).send(mail()) == Unknown("read_timeout")
    assert len(server.requests) == 1


def test_nobody_at_the_endpoint_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert provider().send(mail()) == Unreachable("connect_failed")


def test_nobody_at_the_proxy_is_unreachable(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    monkeypatch.setenv("no_proxy", "")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert provider().send(mail()) == Unreachable("connect_failed")
    assert server.requests == []


def test_a_connection_that_is_never_taken_up_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.settimeout(0)
            filler.connect_ex(full.getsockname())
        monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", f"http://127.0.0.1:{full.getsockname()[1]}")
        try:
            assert provider(HASTY).send(mail()) == Unreachable("connect_timeout")
        finally:
            for filler in fillers:
                filler.close()


def test_a_server_without_a_trusted_certificate_gets_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: Make
) -> None:
    with SesServer(Certificate(tmp_path).server_context()) as impostor:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", impostor.url)
        assert provider().send(mail()) == Unreachable("tls_failed")
        assert impostor.requests == []


def test_a_server_that_speaks_no_tls_gets_nothing(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", server.url.replace("http:", "https:"))
    assert provider().send(mail()) == Unreachable("tls_failed")
    assert server.requests == []


@pytest.mark.parametrize(
    ("unset", "given_", "outcome"),
    [
        (
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            {},
            Blocked("credentials_missing"),
        ),
        (["AWS_SECRET_ACCESS_KEY"], {}, Blocked("credentials_missing")),
        (["AWS_DEFAULT_REGION"], {}, Blocked("region_missing")),
        (
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"},
            Unreachable("credentials_endpoint"),
        ),
    ],
    ids=["no credentials", "half of them", "no region", "their endpoint is silent"],
)
def test_what_our_own_side_lacks_is_not_the_message_s_fault(
    server: SesServer,
    monkeypatch: pytest.MonkeyPatch,
    unset: list[str],
    given_: dict[str, str],
    outcome: Outcome,
    provider: Make,
) -> None:
    for name in unset:
        monkeypatch.delenv(name)
    for name, value in given_.items():
        monkeypatch.setenv(name, value)
    assert provider().send(mail()) == outcome
    assert server.requests == []


def test_a_client_that_could_not_be_made_is_made_for_a_later_mail(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    client = provider()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert client.send(mail()) == Blocked("region_missing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert client.send(mail()) == Accepted("ses-1")


def test_a_request_that_the_sdk_refuses_is_this_message_s_fault(
    server: SesServer, provider: Make
) -> None:
    wrong: dict[str, str] = {"retries": 3}  # type: ignore[dict-item]
    assert provider().send(replace(mail(), tags=wrong)) == Rejected(
        "invalid_request", is_answer=False
    )
    assert server.requests == []


def test_a_mail_that_ses_would_refuse_for_its_size_is_not_uploaded(
    server: SesServer, provider: Make
) -> None:
    """SES-06."""
    client = provider()
    largest = replace(mail(), content=b"x" * ses.LARGEST)
    larger = replace(mail(), content=largest.content + b"x")
    assert client.send(larger) == Rejected("too_large", is_answer=False)
    assert server.requests == []
    assert client.send(largest) == Accepted("ses-1")


@functools.cache
def large_mail(megabytes: float) -> OutgoingMail:
    """Made once for both ways: base64 of so much takes a second."""
    large = Attachment("large.bin", "application/octet-stream", bytes(int(megabytes * 2**20)))
    return mail(attachment=large)


@pytest.mark.parametrize(
    ("megabytes", "outcome"),
    [(29.0, Accepted("ses-1")), (29.3, Rejected("too_large", is_answer=False))],
)
def test_an_attachment_counts_as_large_as_base64_makes_it(
    server: SesServer, megabytes: float, outcome: Outcome, provider: Make
) -> None:
    """SES-06: 40 MB of mail hold 29.2 MB of file."""
    assert provider().send(large_mail(megabytes)) == outcome
    assert len(server.requests) == (outcome == Accepted("ses-1"))


def test_threads_share_one_client_made_at_the_first_mail(server: SesServer, provider: Make) -> None:
    client = provider()
    gate = threading.Barrier(4)
    sent = [mail() for _ in range(12)]

    def send(message: OutgoingMail) -> tuple[Outcome, int]:
        if message in sent[:4]:
            gate.wait(5)
        return client.send(message), id(client._client)

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(send, sent))
    assert [outcome for outcome, _ in results] == [Accepted("ses-1")] * 12
    assert len({client_id for _, client_id in results}) == 1
    assert sorted(server.mails) == sorted(message.content for message in sent)


def test_the_provider_s_text_reaches_no_log(
    server: SesServer, caplog: pytest.LogCaptureFixture, provider: Make
) -> None:
    """RET-05."""
    server.plan.append(refusal(400, "MessageRejected", UNVERIFIED + "ada@example.com"))
    with caplog.at_level(logging.INFO):
        provider().send(mail())
    assert "ada" not in caplog.text


def test_an_emulated_ses_gives_the_whole_mime_back(
    monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    emulator = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    emulator.start()
    try:
        host, port = emulator.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", f"http://{host}:{port}")
        boto3.client("sesv2").create_email_identity(EmailIdentity="mail.example.com")
        sent = mail()
        outcome = provider(configuration_set=None).send(sent)
        assert isinstance(outcome, Accepted)
        (kept,) = [
            message
            for backends in ses_backends.values()
            for message in backends["us-east-1"].sent_messages
            if message.id == outcome.provider_message_id
        ]
    finally:
        emulator.stop()
    parsed = email.message_from_string(kept.raw_data, policy=email.policy.default)
    assert parsed["Subject"] == "Grüße"
    for kind, text in (("plain", "Hällo\n"), ("html", "<p>Hällo</p>\n")):
        part = parsed.get_body((kind,))
        assert part is not None
        assert part.get_content().replace("\r\n", "\n") == text
    (attachment,) = parsed.iter_attachments()
    assert attachment.get_filename() == "Prüf.pdf"
    assert attachment.get_content() == b"%PDF\x00"
    assert set(kept.destinations) == set(ENVELOPE.recipients)


def quota(body: str) -> Answer:
    return Answer(body=body.encode())


@pytest.mark.parametrize(
    ("body", "rate"),
    [
        ('{"SendQuota": {"MaxSendRate": 14.0, "Max24HourSend": 50000.0}}', 14.0),
        ('{"SendQuota": {"MaxSendRate": -1.0}}', None),
        ('{"SendQuota": {}}', None),
        ("{}", None),
    ],
)
def test_the_account_s_rate_is_asked_of_the_account(
    server: SesServer, shared: SesProvider, body: str, rate: float | None
) -> None:
    server.plan.append(quota(body))
    assert shared.sending_rate() == rate
    assert server.paths == ["/v2/email/account"]
    assert server.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "NotFoundException", "no such action"),
        refusal(403, "AccessDeniedException", "not authorized to perform ses:GetAccount"),
        refusal(500, "InternalFailure", "later"),
        LOST,
    ],
)
def test_an_account_that_tells_no_rate_is_not_asked_twice_and_may_tell_later(
    server: SesServer, shared: SesProvider, answer: Answer
) -> None:
    server.plan.append(answer)
    with pytest.raises(UnavailableError, match="SES tells no rate"):
        shared.sending_rate()
    assert len(server.paths) == 1
    server.plan.append(quota('{"SendQuota": {"MaxSendRate": 1}}'))
    assert shared.sending_rate() == 1


def test_getting_ready_makes_the_client_and_asks_nothing(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    ready = provider()
    ready.get_ready()
    assert server.paths == []
    # What was made knows its endpoint.
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", "http://127.0.0.1:9")
    assert ready.send(mail()) == Accepted("ses-1")


def test_what_keeps_the_client_from_being_made_is_met_by_the_mail(
    server: SesServer, monkeypatch: pytest.MonkeyPatch, provider: Make
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    unready = provider()
    unready.get_ready()
    assert unready.send(mail()) == Blocked("region_missing")
