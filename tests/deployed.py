"""A deployment's surroundings: the environment, and secrets in an emulated AWS.

The fixtures are for every test that calls a function or what reads its settings.
"""

from __future__ import annotations

import io
import json
import secrets
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from psycopg.conninfo import conninfo_to_dict

from postlease import config, database, doorbell, rendering, telemetry
from postlease import secret_store as secret_store_module
from postlease.attachments import storage
from postlease.delivery import rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection

PEPPER = "pepper-" * 8
KEYS = {"current": "k2", "k1": "first-key-" * 5, "k2": "second-key-" * 5}

USES = ("requests", "claims", "verdicts", "records", "reaper", "retention", "feedback")
"""For what the functions keep a connection."""


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """An emulated AWS on a loopback port, for the run."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def aws(aws_endpoint: str) -> dict[str, str]:
    """The variables that lead the SDK to the emulated AWS."""
    return {
        "AWS_ENDPOINT_URL": aws_endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
    }


@pytest.fixture(scope="session")
def secret_store(aws_endpoint: str) -> Iterator[Any]:
    """A client of the emulated Secrets Manager."""
    store = boto3.client(
        "secretsmanager",
        endpoint_url=aws_endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    yield store
    store.close()


@pytest.fixture(scope="session")
def secret_arns(secret_store: Any, application_conninfo: str) -> dict[str, str]:
    """The variables that name the function's secrets."""
    parts = conninfo_to_dict(application_conninfo)
    login = {
        "host": parts["host"],
        "port": str(parts["port"]),
        "dbname": parts["dbname"],
        "username": parts["user"],
        "password": parts["password"],
    }
    texts = {
        "DATABASE_SECRET_ARN": json.dumps(login),
        "TOKEN_KEYS_SECRET_ARN": json.dumps(KEYS),
        "PEPPER_SECRET_ARN": PEPPER,
    }
    return {
        name: secret_store.create_secret(Name=secrets.token_hex(8), SecretString=text)["ARN"]
        for name, text in texts.items()
    }


@pytest.fixture
def environment(
    monkeypatch: pytest.MonkeyPatch,
    owner: Connection,
    aws: dict[str, str],
    secret_arns: dict[str, str],
) -> Iterator[Callable[..., None]]:
    """The function's environment as deployed; call it to change variables."""
    deployed = {
        "STAGE": "local",
        "PUBLIC_URL": "https://mail.example.com",
        "FROM_ADDRESS": "noreply@example.com",
        "ATTACHMENTS_BUCKET": "attachments",
    }
    for name, value in (aws | secret_arns | deployed).items():
        monkeypatch.setenv(name, value)
    forget()

    def change(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    yield change
    forget()


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the product logs during the test, a JSON object a line."""
    stream = io.StringIO()
    # The handler keeps the stream of the moment of import, which is another test's.
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", stream)
    return stream


def forget() -> None:
    """What a new process would not know."""
    if database.application.cache_info().currsize:
        database.application().discard()  # cached apart from the same use asked for by name
        for use in USES:
            database.application(use).discard()
    database.application.cache_clear()
    config.settings.cache_clear()
    rendering.templates.cache_clear()
    rates.forget()
    if storage.client.cache_info().currsize:
        storage.client().close()
    storage.client.cache_clear()
    if doorbell._sqs.cache_info().currsize:
        doorbell._sqs().close()
    doorbell._sqs.cache_clear()
    if secret_store_module.provider.cache_info().currsize:
        secret_store_module.provider().client.close()
    secret_store_module.provider.cache_clear()
