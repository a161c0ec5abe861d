"""The auth function's world: its environment, its secrets in an emulated AWS, its database."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_lambda_powertools.utilities import parameters
from moto.server import ThreadedMotoServer
from postlease import accounts, config, database, tokens
from postlease.database import Connection, Database
from postlease.model import TokenFacts
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

PEPPER = "pepper-" * 8
KEYS = {"current": "k2", "k1": "first-key-" * 5, "k2": "second-key-" * 5}

TOKENS_OF = """
SELECT t.id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash
FROM postlease.verification_tokens AS t JOIN postlease.users AS u ON u.id = t.user_id
WHERE u.email_canonical = %s ORDER BY t.version
"""


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
    _forget()

    def change(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        _forget()

    yield change
    _forget()


@dataclass
class World:
    """What a test looks at and does, beside calling the API."""

    owner: Connection
    ring: tokens.KeyRing

    def rows(self, query: str, *arguments: object) -> list[dict[str, Any]]:
        """The rows of a query by the owner."""
        return self.owner.execute(query.encode(), arguments).fetchall()

    def count(self, table: str) -> int:
        """How many rows a table of the schema has."""
        query = sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier("postlease", table))
        return int(self.owner.execute(query).fetchall()[0]["n"])

    def dump(self) -> str:
        """Every row of every table as text: what a stolen backup shows."""
        tables = self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'postlease'")
        return "\n".join(
            row["line"]
            for table in tables
            for row in self.owner.execute(
                sql.SQL("SELECT t::text AS line FROM {} AS t").format(
                    sql.Identifier("postlease", table["tablename"])
                )
            )
        )

    def wait_until_blocked(self) -> None:
        """Return as soon as a session of this database waits for a lock."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.rows(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            ):
                return
        raise AssertionError("nobody waits for a lock")

    def tokens_of(self, address: str) -> list[str]:
        """The text of each verification token of a user, oldest first, as the mails carry it."""
        found = self.rows(TOKENS_OF, address)
        return [tokens.derive_again(self.ring, TokenFacts(**row)) for row in found]

    def end_cooldowns(self) -> None:
        """Let the cooldown pass: its window is moved into the past."""
        self.owner.execute(
            "UPDATE postlease.rate_limits SET window_started_at = now() - interval '2 hours',"
            " window_ends_at = now() - interval '1 hour'"
        )

    def user(self, user_id: UUID) -> dict[str, Any]:
        """One user's row."""
        return self.rows("SELECT * FROM postlease.users WHERE id = %s", user_id)[0]


@pytest.fixture
def world(environment: Callable[..., None], owner: Connection) -> World:
    """Empty tables, and the function's environment."""
    return World(owner, tokens.KeyRing.from_secret(KEYS))


@pytest.fixture
def open_database(world: World, application_conninfo: str) -> Iterator[Callable[[], Database]]:
    """Opens databases as a function's environment has one: one for each process that we play."""
    opened: list[Database] = []

    def open_one() -> Database:
        opened.append(Database(lambda *, refresh: application_conninfo))
        opened[-1].connection()
        return opened[-1]

    yield open_one
    for kept in opened:
        kept.discard()


@pytest.fixture
def signed_up(world: World, database: Database) -> Callable[[str], accounts.SignUp]:
    """Signs an address up."""
    return lambda email: accounts.sign_up(database, email=email)


def _forget() -> None:
    """What a new process would not know."""
    if database.application.cache_info().currsize:
        database.application().discard()
    database.application.cache_clear()
    config.settings.cache_clear()
    parameters.clear_caches()
