"""The provider's front makes each fault on the wire; a real SDK without retries meets it."""

from __future__ import annotations

import http.client
import json
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from local.provider import SEND_PATH, Events, Fault, Mode, Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from types_boto3_sesv2 import SESV2Client


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that makes its ids itself."""
    opened = Provider()
    yield opened
    opened.close()


@pytest.fixture
def ses(provider: Provider) -> Iterator[SESV2Client]:
    """The SDK's client as a careful caller sets it up."""
    client = boto3.client(
        "sesv2",
        endpoint_url=provider.url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2),
    )
    yield client
    client.close()


def content() -> bytes:
    """A mail with two bodies and an attachment."""
    mail = EmailMessage()
    mail["From"] = "Sender <no-reply@example.com>"
    mail["To"] = "ada@example.com"
    mail["Subject"] = "Grüße"
    mail["X-Postlease-Id"] = "evt_1"
    mail.set_content("Hallo\n")
    mail.add_alternative("<p>Hallo</p>\n", subtype="html")
    mail.add_attachment(b"12345", maintype="application", subtype="pdf", filename="a.pdf")
    return mail.as_bytes()


def send(ses: SESV2Client, **changes: Any) -> str:
    """One mail to three people."""
    wish: dict[str, Any] = {
        "FromEmailAddress": "no-reply@example.com",
        "Destination": {
            "ToAddresses": ["ada@example.com"],
            "CcAddresses": ["bob@example.com"],
            "BccAddresses": ["eve@example.com"],
        },
        "Content": {"Raw": {"Data": content()}},
        "EmailTags": [{"Name": "message_id", "Value": "a-1"}],
    }
    return ses.send_email(**(wish | changes))["MessageId"]


def test_an_accepted_mail_is_in_the_inbox_parsed(provider: Provider, ses: SESV2Client) -> None:
    message_id = send(ses)
    (mail,) = provider.inbox.mails()
    assert mail["provider_message_id"] == message_id
    assert mail["message_id"] == "evt_1"
    assert mail["from"] == "Sender <no-reply@example.com>"
    assert (mail["to"], mail["cc"], mail["bcc"]) == (
        ["ada@example.com"],
        ["bob@example.com"],
        ["eve@example.com"],
    )
    assert (mail["subject"], mail["text"], mail["html"]) == ("Grüße", "Hallo\n", "<p>Hallo</p>\n")
    assert ["X-Postlease-Id", "evt_1"] in mail["headers"]
    assert mail["attachments"] == [
        {
            "filename": "a.pdf",
            "content_type": "application/pdf",
            "content_id": None,
            "size": 5,
        }
    ]
    assert mail["received_at"].startswith("20")
    assert (provider.counts.requests, provider.counts.accepted) == (1, 1)


@pytest.mark.parametrize(
    ("mode", "status", "code", "text"),
    [
        ("reject", 400, "MessageRejected", "invalid content in the message to ada@example.com"),
        ("throttle", 429, "TooManyRequestsException", "Maximum sending rate exceeded"),
        ("pause", 400, "SendingPausedException", "paused"),
        ("unavailable", 503, "ServiceUnavailableException", "not accepted"),
    ],
)
def test_a_refusal_has_sess_own_code_and_accepts_nothing(
    provider: Provider, ses: SESV2Client, mode: Mode, status: int, code: str, text: str
) -> None:
    provider.set_fault(Fault(mode))
    with pytest.raises(ClientError) as caught:
        send(ses)
    answer: Any = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
    assert answer["Error"]["Code"] == code
    assert text in answer["Error"]["Message"]
    assert provider.inbox.mails() == []
    assert (provider.counts.requests, provider.counts.accepted) == (1, 0)


def test_a_lost_response_was_accepted(provider: Provider, ses: SESV2Client) -> None:
    provider.set_fault(Fault("lose_response"))
    with pytest.raises(ConnectionClosedError):
        send(ses)
    assert len(provider.inbox.mails()) == 1


def test_a_stalled_call_is_held_and_forgotten_when_the_client_goes(
    provider: Provider, ses: SESV2Client
) -> None:
    provider.set_fault(Fault("stall"))
    with ThreadPoolExecutor() as pool:
        call = pool.submit(send, ses)
        assert provider.wait_for(lambda counts: counts.held == 1, seconds=10)
        with pytest.raises(ReadTimeoutError):
            call.result()
    assert provider.wait_for(lambda counts: counts.held == 0, seconds=10)
    assert provider.inbox.mails() == []
    assert provider.counts.accepted == 0


def test_a_stalled_call_stays_held_when_the_fault_is_lifted(
    provider: Provider, ses: SESV2Client
) -> None:
    provider.set_fault(Fault("stall"))
    with ThreadPoolExecutor() as pool:
        call = pool.submit(send, ses)
        assert provider.wait_for(lambda counts: counts.held == 1, seconds=10)
        provider.set_fault(Fault())
        with pytest.raises(ReadTimeoutError):
            call.result()
    assert provider.inbox.mails() == []


def test_a_slow_call_is_accepted_after_its_seconds(provider: Provider, ses: SESV2Client) -> None:
    provider.set_fault(Fault("slow", seconds=0.2))
    with ThreadPoolExecutor() as pool:
        call = pool.submit(send, ses)
        assert provider.wait_for(lambda counts: counts.held == 1, seconds=10)
        assert provider.inbox.mails() == []
        assert call.result() == provider.inbox.mails()[0]["provider_message_id"]


def test_a_fault_lasts_for_its_number_of_calls(provider: Provider, ses: SESV2Client) -> None:
    provider.set_fault(Fault("throttle", times=2))
    for left in (1, 0):
        with pytest.raises(ClientError):
            send(ses)
        assert provider.fault.times == left
    assert send(ses)
    assert provider.counts.requests == 3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"FromEmailAddress": "nobody"}, "FromEmailAddress"),
        ({"Destination": {}}, "Destination"),
        ({"Destination": {"ToAddresses": ["a@b.c"] * 51}}, "Destination"),
        ({"Destination": {"ToAddresses": ["no address"]}}, "Destination.ToAddresses"),
        ({"Destination": {"BccAddresses": ["ä@example.com"]}}, "Destination.BccAddresses"),
        ({"Content": {"Raw": {"Data": b"no header"}}}, "Content.Raw.Data"),
        ({"Content": {"Simple": {"Subject": {"Data": "x"}, "Body": {}}}}, "Content.Raw.Data"),
        ({"EmailTags": [{"Name": "to", "Value": "a@b.c"}]}, "EmailTags.Value"),
    ],
)
def test_an_invalid_call_is_a_400_that_names_the_field(
    provider: Provider, ses: SESV2Client, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(ClientError) as caught:
        send(ses, **changes)
    answer: Any = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert answer["Error"]["Code"] == "BadRequestException"
    assert answer["Error"]["Message"].startswith(f"{field}:")
    assert provider.inbox.mails() == []


@pytest.mark.parametrize(
    ("body", "field"), [(b"{", "body"), (b"[]", "body"), (b"{}", "FromEmailAddress")]
)
def test_a_body_that_is_no_call_is_a_400(provider: Provider, body: bytes, field: str) -> None:
    connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", SEND_PATH, body)
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.loads(answer.read())["message"].startswith(f"{field}:")
        connection.request("GET", SEND_PATH)
        other = connection.getresponse()
        assert (other.status, other.read() != b"") == (404, True)
    finally:
        connection.close()


def test_a_mail_in_an_unknown_charset_is_still_in_the_inbox(
    provider: Provider, ses: SESV2Client
) -> None:
    head = b"Subject: x\r\nContent-Type: text/plain; charset=no-such\r\n\r\n"
    send(ses, Content={"Raw": {"Data": head + b"plain\r\n"}})
    assert provider.inbox.mails()[0]["text"] == "plain\n"


def test_a_mail_is_told_of_before_the_call_is_answered(
    provider: Provider, ses: SESV2Client
) -> None:
    told: list[dict[str, Any]] = []
    provider.publish = told.append
    provider.set_events(Events(("Send", "Delivery"), times=1))
    message_id = send(ses)
    assert [event["detail"]["eventType"] for event in told] == ["Send", "Delivery"]
    assert {event["detail"]["mail"]["messageId"] for event in told} == {message_id}
    send(ses)
    assert len(told) == 2


def test_an_answer_that_is_lost_is_told_of_all_the_same(
    provider: Provider, ses: SESV2Client
) -> None:
    told: list[dict[str, Any]] = []
    provider.publish = told.append
    provider.set_events(Events(("Send",)))
    provider.set_fault(Fault("lose_response", 1))
    with pytest.raises(ConnectionClosedError):
        send(ses)
    provider.set_fault(Fault("reject", 1))
    with pytest.raises(ClientError):
        send(ses)
    assert len(told) == 1


def test_a_late_event_comes_after_its_seconds(provider: Provider, ses: SESV2Client) -> None:
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    provider.publish = told.put
    provider.set_events(Events(("Complaint",), seconds=0.2))
    answered = time.monotonic()
    send(ses)
    assert told.get(timeout=10)["detail"]["eventType"] == "Complaint"
    assert time.monotonic() - answered >= 0.2
