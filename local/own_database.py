"""A stack's own database, on a server that is given or made for it."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from local import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.keeper import Keeper

_SERVER_LOCK = 7_652_041


class OwnDatabaseError(Exception):
    """There can be no database; the text is one line and says why."""


class OwnDatabase:
    """An empty database of a new name. keeper drops it when this process ends, however it does.

    server_url is the server to make it on, instead of DATABASE_URL's or a private one, which lives
    as long as started. OwnDatabaseError if the server lets nobody make one.
    """

    def __init__(
        self, server_url: str | None, *, keeper: Keeper, started: contextlib.ExitStack
    ) -> None:
        self._is_given = server_url is None and bool(os.environ.get("DATABASE_URL"))
        self._server_url = server_url or started.enter_context(postgres.server())
        self._name = f"postlease_local_{secrets.token_hex(6)}"
        try:
            self.url = postgres.create_database(self._server_url, self._name)
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            where = " on the server of DATABASE_URL" if self._is_given else ""
            raise OwnDatabaseError(f"cannot create a database{where}: {reason}") from error
        keeper.drop_database(self._server_url, self._name)  # paid when all sessions have ended

    @property
    def server(self) -> str:
        """Which server it is on; no password."""
        where = postgres.told(self.url)
        return f"{where}, by DATABASE_URL" if self._is_given else where

    @property
    def login(self) -> dict[str, str]:
        """The owner's login in the form of its secret."""
        login = conninfo_to_dict(self.url)
        return {
            "host": str(login.get("host") or "localhost"),
            "port": str(login.get("port") or 5432),
            "dbname": self._name,
            "username": str(login.get("user") or "postgres"),
            "password": str(login.get("password") or ""),
            "sslmode": str(login.get("sslmode") or "prefer"),
        }

    @contextlib.contextmanager
    def server_alone(self) -> Iterator[None]:
        """Roles belong to the whole server: two stacks on it must not create them at once."""
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (_SERVER_LOCK,))
            yield
