"""The gateway believes a SigV4 signature of local/local, and nothing else."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.gateway import Gateway
from local.runtime import REGION
from local.signatures import SECRET_KEY, SIGNING_NAME, fault, is_signed
from local.template import Route
from local.web import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.functions import Function

BODY = b'{"template": "receipt"}'
HOST = "127.0.0.1:8000"


def signed(
    *,
    key: str = "local",
    secret: str = SECRET_KEY,
    signing_name: str = SIGNING_NAME,
    region: str = REGION,
    target: str = "/v1/messages?limit=5&after=a%20b",
) -> dict[str, str]:
    """The headers of a signed POST."""
    wish = AWSRequest(
        method="POST",
        url=f"http://{HOST}{target}",
        data=BODY,
        headers={"Host": HOST, "Content-Type": "application/json"},
    )
    SigV4Auth(Credentials(key, secret), signing_name, region).add_auth(wish)
    return dict(wish.headers.items())


def request(
    headers: dict[str, str],
    *,
    method: str = "POST",
    target: str = "/v1/messages?limit=5&after=a%20b",
    body: bytes = BODY,
) -> Request:
    """A request as the gateway reads it."""
    with socket.socket() as unused:
        return Request(method, target, tuple(headers.items()), body, "127.0.0.1", unused)


def test_a_good_signature_passes() -> None:
    assert is_signed(request(signed()))


def test_headers_added_on_the_way_do_not_matter() -> None:
    assert is_signed(request(signed() | {"Accept": "*/*", "User-Agent": "curl"}))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"key": "else"}, "the access key is not `local`"),
        ({"secret": "else"}, "another signature: the secret is not `local`, or "),
        ({"target": "/v1/messages?limit=6"}, "another signature: "),
        ({"region": "eu-west-1"}, "the scope is not us-east-1/execute-api"),
    ],
)
def test_whoever_runs_the_stack_is_told_why_a_signature_is_not_believed(
    other: dict[str, str], said: str
) -> None:
    told = fault(request(signed(**other), target="/v1/messages?limit=5&after=a%20b"))
    assert (told or "").startswith(said)


def test_the_gateway_tells_the_reason_to_its_log_and_not_to_the_caller(
    caplog: pytest.LogCaptureFixture, make_function: Callable[..., Function]
) -> None:
    function = make_function("")
    gateway = Gateway([Route("POST /v1/messages", "sample", iam=True)], {"sample": function})
    answer = gateway.respond(request({}, target="/v1/messages"))
    assert (answer.status, json.loads(answer.body)) == (403, {"message": "Forbidden"})
    assert "403 for POST /v1/messages: no Authorization header" in caplog.text


@pytest.mark.parametrize(
    "tampered",
    [
        {"method": "PUT"},
        {"target": "/v1/messages?limit=6&after=a%20b"},
        {"target": "/v1/messages/retry?limit=5&after=a%20b"},
        {"body": b'{"template": "invoice"}'},
    ],
)
def test_a_tampered_request_fails(tampered: dict[str, str]) -> None:
    assert not is_signed(request(signed(), **tampered))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"key": "else"},
        {"secret": "else"},
        {"signing_name": "s3"},
        {"region": "eu-west-1"},
    ],
)
def test_a_signature_for_something_else_fails(other: dict[str, str]) -> None:
    assert not is_signed(request(signed(**other)))


def test_a_missing_or_mangled_signature_fails() -> None:
    headers = signed()
    assert not is_signed(request({"Host": HOST}))
    assert not is_signed(request(headers | {"Authorization": "AWS4-HMAC-SHA256 nonsense"}))
    assert not is_signed(request(headers | {"Authorization": headers["Authorization"][:-1] + "g"}))
    assert not is_signed(request({k: v for k, v in headers.items() if k != "X-Amz-Date"}))


def test_a_signed_header_that_changed_fails() -> None:
    assert not is_signed(request(signed() | {"Content-Type": "text/plain"}))


def test_a_body_digest_of_another_body_fails() -> None:
    assert not is_signed(request(signed() | {"X-Amz-Content-SHA256": "0" * 64}))


def test_a_signature_is_good_for_five_minutes_either_way() -> None:
    sample = request(signed())
    now = datetime.now(UTC)
    for offset in (-290, 290):
        assert is_signed(sample, now=now + timedelta(seconds=offset))
    for offset in (-310, 310):
        assert not is_signed(sample, now=now + timedelta(seconds=offset))
