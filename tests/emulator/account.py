"""What a user has before the first deploy: a database over TLS alone, an account, a login."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

from local import postgres
from tests.doubles.certificates import Certificate
from tests.emulator.emulator import Emulator
from tests.emulator.tls import TlsFront

if TYPE_CHECKING:
    from pathlib import Path

    from local.keeper import Keeper

DATABASE = "postlease"
OWNER = "postlease_owner"
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Trust:
    """How a login over TLS knows the server."""

    sslmode: str
    sslrootcert: str


class Account:
    """The emulator and a PostgreSQL on loopback, from `__enter__` to `__exit__`.

    Nothing is in the account yet. Files lie in folder, what the emulator says in logs.
    """

    def __init__(self, keeper: Keeper, folder: Path, logs: Path) -> None:
        self._keeper = keeper
        self._folder = folder
        self._logs = logs

    def __enter__(self) -> Self:
        certificate = Certificate(self._folder)
        self.trust = Trust("verify-full", str(certificate.path))
        with contextlib.ExitStack() as started:
            self.server = started.enter_context(postgres.Server())
            port = urlsplit(self.server.url).port or 0
            self.front = started.enter_context(TlsFront(port, certificate.server_context()))
            self.emulator = started.enter_context(Emulator(self._keeper, self._folder, self._logs))
            self._make_database()
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    @property
    def login(self) -> dict[str, object]:
        """The migrating role's login, in the shape of the owner's secret."""
        return {
            "host": HOST,
            "port": self.front.port,
            "dbname": DATABASE,
            "username": OWNER,
            "password": self._password,
            "sslmode": self.trust.sslmode,
            "sslrootcert": self.trust.sslrootcert,
        }

    @property
    def database_url(self) -> str:
        """The same role's way to the database, past the TLS front."""
        port = urlsplit(self.server.url).port
        return f"postgresql://{OWNER}:{quote(self._password)}@{HOST}:{port}/{DATABASE}"

    def parameters(self, secret_arn: str) -> dict[str, str]:
        """The parameters of the template that say where the database is."""
        return {
            "DatabaseHost": HOST,
            "DatabasePort": str(self.front.port),
            "DatabaseName": DATABASE,
            "DatabaseSslMode": self.trust.sslmode,
            "DatabaseSslRootCert": self.trust.sslrootcert,
            "DatabaseOwnerSecretArn": secret_arn,
        }

    def _make_database(self) -> None:
        """The migrating role, as docs/deploy.md asks for it, and its database."""
        self._password = secrets.token_urlsafe(24)
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            role = sql.Identifier(OWNER)
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD {}").format(
                    role, sql.Literal(self._password)
                )
            )
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), role)
            )
            self.server_version = str(connection.info.parameter_status("server_version"))
