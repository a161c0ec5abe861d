"""Connections to PostgreSQL, and the one way an error leaves them.

A Lambda environment keeps one connection per use, opened when first needed; no pool, whose threads
would freeze with it. Statements belong to the modules that run them.
"""

from __future__ import annotations

import contextlib
import functools
import select
import time
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from postlease import secret_store
from postlease.config import settings
from postlease.errors import ConfigurationError, DatabaseError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
Connection = psycopg.Connection[Row]

CONNECT_TIMEOUT_SECONDS = 2
_IDLE_CHECK_SECONDS = 30.0
_ECHO_SECONDS = 1.0
_CONNECTION: dict[str, str | int] = {
    # A standby answers too, and refuses every write.
    "target_session_attrs": "read-write",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# 40001 serialization, 40P01 deadlock, 53xxx out of resources, 55P03 lock timeout, 57014 statement
# timeout, 57P0x shutdown: nothing was stored, and the same request may succeed a little later.
_TRANSIENT = ("08", "25006", "40", "53", "55P03", "57")
_READ_ONLY = "25006"
_BAD_PASSWORD = ("28P01", "28000")
# Why no connection came about: libpq tells it in words alone, beside names that stay here.
_NO_CONNECTION = {
    "password authentication failed": "the database refuses the login",
    "no pg_hba.conf entry": "the database refuses the login",
    "failed to resolve host": "the database's host name is not known",
    "timeout expired": "the database does not answer in time",
    "does not support SSL": "the database does not speak TLS",
    "root certificate file": "the file that the database secret's sslrootcert names is not there",
    "certificate": "the database's certificate is not trusted",
    "invalid sslmode": "the database secret's sslmode is none",
    "too many connections": "the database has no connection left",
    "too many clients": "the database has no connection left",
    "connection slots": "the database has no connection left",
    "read-only": "the database takes no writes",
    "does not exist": "the database server has no such database, or no such role",
}


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Let no psycopg error out: its text holds rows, and rows hold addresses.

    UnavailableError means repeat later; DatabaseError carries sqlstate and constraint name.
    """
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate
        if state is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise UnavailableError(_silence(str(error))) from None
        if state is not None and state.startswith(_TRANSIENT):
            reason = f"the database is busy or away (sqlstate {state})"
            raise UnavailableError(reason, sqlstate=state) from None
        raise DatabaseError(state, error.diag.constraint_name) from None


def _silence(text: str) -> str:
    """What driver or server said when there was no answer, in words of ours."""
    told = (reason for words, reason in _NO_CONNECTION.items() if words in text)
    return next(told, "the database does not answer")


def connect(conninfo: str) -> Connection:
    """A new connection in autocommit mode: transactions are `with connection.transaction()` blocks.

    Nothing is prepared on the server, so that a pooler may move us between sessions.
    """
    return psycopg.connect(
        make_conninfo(conninfo, connect_timeout=CONNECT_TIMEOUT_SECONDS, **_CONNECTION),
        autocommit=True,
        prepare_threshold=None,
        row_factory=dict_row,
    )


class ReadConninfo(Protocol):
    """Answers libpq's connection string; refresh asks it to read its secret anew."""

    def __call__(self, *, refresh: bool) -> str: ...


class Database:
    """One kept connection, opened when first needed and replaced when found dead."""

    def __init__(self, conninfo: ReadConninfo) -> None:
        """conninfo answers libpq's connection string whenever a connection is opened."""
        self._conninfo = conninfo
        self._connection: Connection | None = None
        self._used_at = 0.0

    def connection(self) -> Connection:
        """The kept connection, checked, or a new one. UnavailableError when none can be had."""
        if self._connection is not None and not self._answers(self._connection):
            self.discard()
        if self._connection is None:
            self._connection = self._open()
        self._used_at = time.monotonic()
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether a connection is kept."""
        return self._connection is not None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction: commits at the block's end, rolls back on any exception."""
        connection = self.connection()
        try:
            with translated_errors(), connection.transaction():
                yield connection
        except UnavailableError as error:
            # After a failover the server that we kept is a standby now: look for the other one.
            if error.sqlstate == _READ_ONLY:
                self.discard()
            raise

    def discard(self) -> None:
        """Close the kept connection, if any; the next use opens a new one."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        with translated_errors():
            try:
                return connect(self._conninfo(refresh=False))
            except psycopg.OperationalError as error:
                # libpq reports a refused login without a SQLSTATE, so the text has to tell.
                if error.sqlstate not in _BAD_PASSWORD and "password" not in str(error):
                    raise
            # The secret was rotated while we kept the old one: read it once more.
            return connect(self._conninfo(refresh=True))

    def _answers(self, connection: Connection) -> bool:
        """False for a connection that died while this environment was frozen or idle."""
        if connection.closed or connection.broken:
            return False
        # Nobody speaks to an idle session but to say goodbye: a readable socket is a closed one.
        if select.select([connection.fileno()], [], [], 0)[0]:
            return False
        if time.monotonic() - self._used_at < _IDLE_CHECK_SECONDS:
            return True
        with contextlib.suppress(psycopg.Error):
            return _echoes(connection)
        return False


def _echoes(connection: Connection) -> bool:
    """Whether the server answers in time.

    Whoever sends into a half-open connection waits for TCP to give up, far beyond a caller's
    patience; so this is sent and waited for by hand.
    """
    protocol = connection.pgconn
    deadline = time.monotonic() + _ECHO_SECONDS
    protocol.send_query(b"SELECT 1")
    protocol.flush()
    while True:
        while protocol.is_busy():
            left = max(deadline - time.monotonic(), 0)
            if not select.select([protocol.socket], [], [], left)[0]:
                return False
            protocol.consume_input()
        if protocol.get_result() is None:
            return True


def secret_conninfo(arn: str, *, refresh: bool) -> str:
    """The connection string in a secret of host, dbname, username, password and options."""
    secret = secret_store.read_json(arn, refresh=refresh)
    if missing := [
        key for key in ("host", "dbname", "username", "password") if not secret.get(key)
    ]:
        raise ConfigurationError(f"the database secret lacks {', '.join(missing)}")
    port = str(secret.get("port") or 5432)
    if not (port.isascii() and port.isdigit()):
        raise ConfigurationError("the database secret's port is not a number")
    optional = {key: secret[key] for key in ("sslmode", "sslrootcert") if secret.get(key)}
    return make_conninfo(
        host=secret["host"],
        port=port,
        dbname=secret["dbname"],
        user=secret["username"],
        password=secret["password"],
        **optional,
    )


@functools.cache
def application(use: str = "requests") -> Database:
    """The application role's database; each use of an environment keeps a connection of its own."""
    del use  # only distinguishes the cached connections
    arn = settings().database_secret_arn
    return Database(functools.partial(secret_conninfo, arn))


@functools.cache
def owner() -> Database:
    """The owner's database, for migrations alone."""
    arn = settings().database_owner_secret_arn
    if arn is None:
        raise ConfigurationError("DATABASE_OWNER_SECRET_ARN is not set")
    return Database(functools.partial(secret_conninfo, arn))
