"""sql/ to database: numbered migrations forward, repeatable functions whenever they changed.

A ledger keeps every applied file's SHA-256. A migration that changed after it was applied is
refused: the databases it already ran on would differ from those it runs on next.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from postlease.database import translated_errors
from postlease.errors import ConfigurationError, DatabaseError, PostleaseError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from postlease.database import Connection

APPLICATION_ROLE = "postlease_application"

_ALONE = "-- no transaction"
_MIGRATION_NAME = re.compile(r"[0-9]{4}_[a-z0-9_]+\.sql")
# One migrator at a time in this database; the number is arbitrary and ours.
_LOCK = 0x706F73746C656173
PATIENCE = timedelta(minutes=10)
"""How long a migrator takes before it gives up and says so."""
_LOCK_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 5.0
_PASSWORD_TRIES = 10

# Asked again and again instead of waited for: a waiting statement keeps its snapshot, and a
# CREATE INDEX CONCURRENTLY of the migrator that holds the lock would wait for that in turn.
LOCK: LiteralString = """-- migrations.lock
SELECT pg_try_advisory_lock(%(key)s) AS held
"""

UNLOCK: LiteralString = """-- migrations.unlock
SELECT pg_advisory_unlock(%(key)s)
"""

SESSION: LiteralString = """-- migrations.session
SELECT set_config('search_path', 'pg_catalog, pg_temp', false),
       set_config('lock_timeout', %(patience)s, false)
"""

BOOTSTRAP: LiteralString = """-- migrations.bootstrap
CREATE SCHEMA IF NOT EXISTS postlease;
CREATE TABLE IF NOT EXISTS postlease.schema_migrations (
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (name),
    CONSTRAINT schema_migrations_sha256_length CHECK (octet_length(sha256) = 32)
);
"""

LEDGER: LiteralString = """-- migrations.ledger
SELECT name, sha256 FROM postlease.schema_migrations
"""

NOTE: LiteralString = """-- migrations.note
INSERT INTO postlease.schema_migrations (name, sha256) VALUES (%(name)s, %(sha256)s)
ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256, applied_at = now()
"""


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One file of sql/. name is its path below sql/, such as `migrations/0001_schema.sql`."""

    name: str
    text: str

    @property
    def sha256(self) -> bytes:
        """Digest of the text as UTF-8."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def runs_alone(self) -> bool:
        """Whether the file must run outside a transaction (and is written to be repeatable)."""
        return self.text.startswith(_ALONE)


def read_files(source: Path | Traversable, folder: str) -> list[SqlFile]:
    """The SQL files of source/folder in the order of their names."""
    return [
        SqlFile(f"{folder}/{entry.name}", entry.read_text("utf-8"))
        for entry in sorted(source.joinpath(folder).iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".sql")
    ]


def migrate(
    connection: Connection,
    source: Path | Traversable,
    *,
    patience: timedelta = PATIENCE,
    accept_newer: bool = False,
) -> list[str]:
    """Bring the database to source's state; answers the names of the files that ran.

    With accept_newer a database that knows all of source's migrations and later ones is left as it
    is, functions included: it was a newer release's, and whoever rolls that back keeps its schema.

    Each file commits with its ledger entry. Waiting for others and running take no longer than
    patience together; what is under way then is cancelled, UnavailableError, and what was applied
    stays. Raises ConfigurationError for a misnamed, doubled, missing or changed migration, before
    anything runs, and for a file that the database refuses, by the file's name.
    """
    migrations = read_files(source, "migrations")
    functions = read_files(source, "functions")
    _check_names(migrations)
    until = time.monotonic() + patience.total_seconds()
    with translated_errors():
        # A function of another's, found before ours, would run with the owner's rights.
        # And no lock is waited for without an end, which 0 would be.
        connection.execute(
            SESSION, {"patience": f"{max(int(1000 * patience.total_seconds()), 1)}ms"}
        )
    with _only_migrator(connection, until):
        with translated_errors():
            connection.execute(BOOTSTRAP)
            applied = {row["name"]: row["sha256"] for row in connection.execute(LEDGER)}
        newer = _newer(migrations, applied) if accept_newer else set()
        _check_drift(migrations, {n: digest for n, digest in applied.items() if n not in newer})
        if newer:
            return []
        due = [file for file in migrations if file.name not in applied]
        # A migration may have changed what a function was compiled against: run them all.
        due += [f for f in functions if due or applied.get(f.name) != f.sha256]
        with _cancelled_at(connection, until):
            for file in due:
                _apply(connection, file, until)
    return [file.name for file in due]


def set_application_password(connection: Connection, password: str) -> None:
    """Let the application role log in with password; repeatable.

    Only the password's SCRAM verifier leaves, so that no log of statements can hold the password.
    """
    verifier = connection.pgconn.encrypt_password(
        password.encode(), APPLICATION_ROLE.encode(), b"scram-sha-256"
    )
    statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(
        sql.Identifier(APPLICATION_ROLE), sql.Literal(verifier.decode())
    )
    tries_left = _PASSWORD_TRIES
    while True:
        tries_left -= 1
        try:
            with translated_errors():
                connection.execute(statement)
        except DatabaseError as error:
            # XX000: a migrator of another database on this server just changed the same role.
            if error.sqlstate != "XX000" or not tries_left:
                raise
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return


@contextlib.contextmanager
def _only_migrator(connection: Connection, until: float) -> Iterator[None]:
    # A session lock, because the files are transactions of their own; it ends with the session.
    with translated_errors():
        while not _is_held(connection):
            if time.monotonic() >= until:
                raise UnavailableError("another session holds the migrators' lock")
            time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(PostleaseError), translated_errors():
            connection.execute(UNLOCK, {"key": _LOCK})


@contextlib.contextmanager
def _cancelled_at(connection: Connection, until: float) -> Iterator[None]:
    """Whatever runs at until is cancelled: what outlives its migrator keeps the next one out."""

    def cancel() -> None:
        with contextlib.suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)

    (timer := threading.Timer(max(until - time.monotonic(), 0), cancel)).start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _is_held(connection: Connection) -> bool:
    row = connection.execute(LOCK, {"key": _LOCK}).fetchone()
    return bool(row and row["held"])


def _check_names(migrations: list[SqlFile]) -> None:
    names = [file.name.removeprefix("migrations/") for file in migrations]
    if misnamed := [name for name in names if not _MIGRATION_NAME.fullmatch(name)]:
        raise ConfigurationError(f"not named NNNN_what.sql: {', '.join(misnamed)}")
    numbers = [name[:4] for name in names]
    expected = [f"{number:04}" for number in range(1, len(names) + 1)]
    if numbers != expected:
        raise ConfigurationError("migrations are not numbered 0001, 0002, ... without a gap")


def _newer(migrations: list[SqlFile], applied: Iterable[str]) -> set[str]:
    """What was applied of a later release than source; nothing while source has more to apply."""
    if {file.name for file in migrations} - set(applied):
        return set()
    last = migrations[-1].name
    return {name for name in applied if name.startswith("migrations/") and name > last}


def _check_drift(migrations: list[SqlFile], applied: dict[str, bytes]) -> None:
    known = {file.name: file.sha256 for file in migrations}
    for name, digest in sorted(applied.items()):
        if not name.startswith("migrations/"):
            continue
        if name not in known:
            raise ConfigurationError(f"{name} was applied here but is not among the files")
        if known[name] != digest:
            raise ConfigurationError(f"{name} changed after it was applied; add a new migration")


def _apply(connection: Connection, file: SqlFile, until: float) -> None:
    if time.monotonic() >= until:
        raise UnavailableError(f"no time is left for {file.name}")
    note = {"name": file.name, "sha256": file.sha256}
    alone = contextlib.nullcontext() if file.runs_alone else connection.transaction()
    try:
        with translated_errors(), alone:
            connection.execute(file.text)
            connection.execute(NOTE, note)
    except DatabaseError as error:
        raise ConfigurationError(f"{file.name} was refused: {error}") from None
    except UnavailableError as error:
        raise UnavailableError(f"{file.name} did not come to its end: {error}") from None
