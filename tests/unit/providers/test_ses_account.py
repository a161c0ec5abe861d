"""Where SES is and as whom we call: what the SDK would say, or left to the SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import CredentialRetrievalError

from postlease.model import Blocked, Unreachable
from postlease.providers import ses_account
from postlease.providers.ses import SesProvider
from postlease.providers.ses_sdk import SdkClient
from postlease.providers.ses_signed import SignedClient
from postlease.providers.sigv4 import Credentials
from tests.doubles.times import PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
FIELDS = {"FromEmailAddress": "a@example.com", "EmailTags": []}
REGIONS = [
    region
    for partition in boto3.session.Session().get_available_partitions()
    for region in boto3.session.Session().get_available_regions("sesv2", partition)
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "REQUESTS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)


def made() -> object:
    provider = SesProvider(PATIENT, configuration_set=None, connections=1)
    provider.get_ready()
    return provider._client


def test_what_lambda_says_is_enough() -> None:
    account = ses_account.find()
    assert account is not None
    assert account.endpoint == "https://email.eu-central-1.amazonaws.com"
    assert account.region == "eu-central-1"
    assert account.authorities is None
    assert account.credentials() == Credentials("key", "secret", "token")
    assert "secret" not in repr(account)
    assert isinstance(made(), SignedClient)


@pytest.mark.parametrize("region", REGIONS)
def test_an_endpoint_is_where_the_sdk_would_call(
    region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    account = ses_account.find()
    if account is None:
        assert not region.startswith(("us-east", "us-west", "eu-west", "eu-central"))
    else:
        assert account.endpoint == endpoint_of_the_sdk(region)


def endpoint_of_the_sdk(region: str) -> str:
    return str(boto3.client("sesv2", region_name=region).meta.endpoint_url)


@pytest.mark.parametrize(
    "given",
    [
        {"AWS_ENDPOINT_URL_SESV2": "http://127.0.0.1:8000/"},
        {"AWS_ENDPOINT_URL": "https://vpce.example.com"},
        {"AWS_ENDPOINT_URL": "http://one", "AWS_ENDPOINT_URL_SESV2": "http://two:80"},
    ],
)
def test_an_endpoint_that_is_named_is_called(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    account = ses_account.find()
    assert account is not None
    assert account.endpoint == endpoint_of_the_sdk("eu-central-1").rstrip("/")


LEFT_TO_THE_SDK = [
    {"AWS_PROFILE": "default"},
    {"AWS_DEFAULT_PROFILE": "default"},
    {"AWS_USE_FIPS_ENDPOINT": "true"},
    {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
    {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    {"AWS_AUTH_SCHEME_PREFERENCE": "sigv4a"},
    {"AWS_DATA_PATH": "/opt/models"},
    {"AWS_CREDENTIAL_EXPIRATION": "2099-01-01T00:00:00Z"},
    {"AWS_DEFAULT_REGION": ""},
    {"AWS_DEFAULT_REGION": "cn-north-1"},
    {"AWS_DEFAULT_REGION": "us-east-1.evil.example/"},
    {"AWS_ACCESS_KEY_ID": ""},
    {"AWS_SECRET_ACCESS_KEY": ""},
    {"AWS_ENDPOINT_URL_SESV2": "https://example.com/path"},
    {"AWS_ENDPOINT_URL_SESV2": "https://user@example.com"},
    {"HTTPS_PROXY": "http://127.0.0.1:9"},
    {"https_proxy": "http://127.0.0.1:9"},
    {"http_proxy": "http://127.0.0.1:9", "AWS_ENDPOINT_URL_SESV2": "http://127.0.0.1:8000"},
]


@pytest.mark.parametrize("given", LEFT_TO_THE_SDK, ids="-".join)
def test_what_only_the_sdk_understands_is_left_to_it(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert ses_account.find() is None


def test_a_file_of_settings_is_left_to_the_sdk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / ".aws" / "config"
    settings.parent.mkdir()
    settings.write_text("[default]\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(settings))
    assert ses_account.find() is None
    assert isinstance(made(), SdkClient)
    monkeypatch.delenv("AWS_CONFIG_FILE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ses_account.find() is None


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_authorities_of_its_own_are_those_that_count(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/opt/bundle.pem")
    account = ses_account.find()
    assert account is not None
    assert account.authorities == "/opt/bundle.pem"


class Endpoint:
    """A container's endpoint of credentials: each answer has a new key, good for the time told."""

    def __init__(self) -> None:
        self.life = timedelta(hours=1)
        self.asked: list[str] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.asked.append(self.headers.get("Authorization", ""))
                number = len(double.asked)
                said = {
                    "AccessKeyId": f"key-{number}",
                    "SecretAccessKey": "secret",
                    "Token": f"token-{number}",
                    "Expiration": (datetime.now(UTC) + double.life).strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.thread.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    port = endpoint.server.server_port
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{port}/get")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pass")
    yield endpoint
    endpoint.server.shutdown()
    endpoint.thread.join()
    endpoint.server.server_close()


def test_a_restored_function_asks_for_credentials_and_keeps_them_while_they_are_good(
    container: Endpoint,
) -> None:
    account = ses_account.find()
    assert account is not None
    for _ in range(3):
        assert account.credentials() == Credentials("key-1", "secret", "token-1")
    assert container.asked == ["pass"]


def test_credentials_that_are_about_to_end_are_asked_for_anew(container: Endpoint) -> None:
    container.life = timedelta(minutes=1)
    account = ses_account.find()
    assert account is not None
    container.life = timedelta(hours=1)
    assert account.credentials().access_key == "key-2"
    assert account.credentials().access_key == "key-2"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_credentials_that_no_header_can_hold_block_and_are_not_sent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "key\r\nX-Evil: 1")
    account = ses_account.find()
    assert account is not None
    assert SignedClient(account, PATIENT).send(FIELDS, b"x") == Blocked("credentials_refused")


def test_an_endpoint_of_credentials_that_goes_silent_is_nobody_s_fault() -> None:
    def gone() -> Credentials:
        raise CredentialRetrievalError(provider="container-role", error_msg="silent")

    account = ses_account.Account("http://127.0.0.1:1", "eu-central-1", None, gone)
    client = SignedClient(account, PATIENT)
    assert client.send(FIELDS, b"x") == Unreachable("credentials_endpoint")


def test_a_call_that_is_signed_here_loads_no_sdk() -> None:
    program = (
        "import sys; from uuid import uuid4; from postlease.model import Envelope, OutgoingMail; "
        "from postlease.providers.ses import SesProvider; from tests.doubles.times import HASTY; "
        "mail = OutgoingMail(uuid4(), 1, 'k', Envelope('a@example.com', (), (), ()), b'x', {}); "
        "provider = SesProvider(HASTY, configuration_set=None, connections=1); "
        "print(provider.send(mail), sorted({'boto3', 'botocore', 'urllib3'} & set(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **PLAIN,
            "AWS_ENDPOINT_URL_SESV2": "http://127.0.0.1:1",
            "PYTHONPATH": ":".join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == f"{Unreachable('connect_failed')} []"
