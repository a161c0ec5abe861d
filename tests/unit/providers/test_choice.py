"""Which provider the settings choose, and what choosing costs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from postlease import secret_store
from postlease.config import read_settings
from postlease.model import Accepted, Envelope, OutgoingMail, Unreachable
from postlease.providers import Provider, choose
from postlease.providers.ses import SesProvider
from postlease.providers.ses_sdk import SdkClient
from postlease.providers.ses_signed import SignedClient
from tests.doubles.smtp_server import SmtpServer

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT = {
    "DATABASE_SECRET_ARN": "arn:database",
    "TOKEN_KEYS_SECRET_ARN": "arn:keys",
    "PEPPER_SECRET_ARN": "arn:pepper",
    "PUBLIC_URL": "https://app.example.com",
    "FROM_ADDRESS": "no-reply@example.com",
    "ATTACHMENTS_BUCKET": "attachments",
}


def chosen(extra: Mapping[str, str]) -> Provider:
    return choose(read_settings(ENVIRONMENT | dict(extra)))


def mail() -> OutgoingMail:
    envelope = Envelope("no-reply@example.com", ("ada@example.com",), (), ())
    return OutgoingMail(uuid4(), 1, "key", envelope, b"Subject: x\r\n\r\nx\r\n", {})


def test_ses_is_chosen_unless_a_relay_is_named() -> None:
    provider = chosen({})
    assert provider.name == "ses"
    assert provider.keeps_keys is False


@pytest.mark.parametrize(("word", "kind"), [("signed", SignedClient), ("boto3", SdkClient)])
def test_ses_is_called_in_the_way_that_is_named(
    word: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    provider = chosen({"SES_CLIENT": word})
    assert isinstance(provider, SesProvider)
    provider.get_ready()
    assert isinstance(provider._client, kind)


def test_a_named_relay_carries_the_mail() -> None:
    with SmtpServer() as server:
        settings = {
            "MAIL_PROVIDER": "smtp",
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(server.port),
            "SMTP_SECURITY": "none",
        }
        provider = chosen(settings)
        assert provider.name == "smtp"
        assert provider.keeps_keys is False
        assert isinstance(provider.send(mail()), Accepted)


def test_a_relay_s_credentials_come_from_the_secret_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that nobody answers for: the relay is not even called."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    secret_store.provider.cache_clear()
    with SmtpServer() as server:
        settings = {
            "MAIL_PROVIDER": "smtp",
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(server.port),
            "SMTP_SECURITY": "none",
            "SMTP_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:relay",
        }
        assert chosen(settings).send(mail()) == Unreachable("credentials_unavailable")
    secret_store.provider.cache_clear()
    assert server.connections == 0


def test_resend_is_chosen_by_its_name_and_keeps_keys() -> None:
    provider = chosen({"MAIL_PROVIDER": "resend", "RESEND_API_KEY_SECRET_ARN": "arn:key"})
    assert provider.name == "resend"
    assert provider.keeps_keys is True


def test_choosing_loads_no_sdk_and_no_template_engine() -> None:
    """A sweep that finds nothing due starts without them."""
    program = (
        "import sys; from postlease.config import read_settings; from postlease.providers import "
        f"choose; import postlease.rendering; choose(read_settings({ENVIRONMENT!r})); "
        "print(sorted({'boto3', 'botocore', 'jinja2', 'smtplib', 'email_validator'} "
        "& set(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == "[]"
