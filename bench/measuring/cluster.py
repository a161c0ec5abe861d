"""One PostgreSQL of the run's own, with default durability, and what it did."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from bench.measuring import processor
from local import postgres
from postlease import migrations
from postlease.database import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PYTHONPATH = f"{ROOT}:{ROOT / 'layers' / 'postlease' / 'python'}"
"""Where a child finds bench, local and the package."""

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "max_connections": "200",
}
"""For all that is measured alike. fsync, synchronous_commit and full_page_writes stay on."""

CALM: LiteralString = "VACUUM (ANALYZE)"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a database's server has done so far: processor seconds, commits, bytes of WAL."""

    processor: float
    commits: int
    wal: int


class Cluster:
    """The server, and a database for each queue."""

    def __init__(self, server: postgres.Server) -> None:
        self._server = server
        self._made: set[str] = set()

    @property
    def url(self) -> str:
        """A superuser's URL of the maintenance database."""
        return self._server.url

    @property
    def version(self) -> str:
        """The server's version as it tells it."""
        [version] = self.row(self.url, "SELECT current_setting('server_version')")
        return str(version)

    def database(self, name: str) -> str:
        """A superuser's URL of a database of that name, made if need be."""
        if name not in self._made:
            postgres.create_database(self.url, name)
            self._made.add(name)
        return postgres.database_url(self.url, name)

    def postlease(self, name: str) -> Home:
        """A database with the product's schema."""
        is_new = name not in self._made
        url = self.database(name)
        password = postgres.application_password(self.url)
        if is_new:
            with connect(url) as connection:
                migrations.migrate(connection, ROOT / "sql")
                migrations.set_application_password(connection, password)
        application = make_conninfo(url, user=migrations.APPLICATION_ROLE, password=password)
        return Home(url, application)

    def drop(self, name: str) -> None:
        """Remove the database and all that it holds."""
        postgres.drop_database(self.url, name)
        self._made.discard(name)

    def calm(self, url: str) -> None:
        """Vacuum and analyze the database, and write all that is not on the disk yet."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CALM)
            connection.execute("CHECKPOINT")

    def read(self, url: str) -> Reading:
        """What there is to read now. Commits of sessions that are still open may be missing."""
        spent = processor.seconds_of_family(self._server.pid)
        commits, wal = self.row(
            url,
            "SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),"
            " (pg_current_wal_insert_lsn() - '0/0')::bigint",
        )
        return Reading(spent, commits, wal)

    def processor_seconds(self) -> float:
        """What all of the server's processes spent so far."""
        return processor.seconds_of_family(self._server.pid)

    def row(self, url: str, query: LiteralString) -> Any:
        """The only row of query."""
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        if row is None:
            raise LookupError(query)
        return row


@dataclass(frozen=True, slots=True)
class Home:
    """A database of the product's: its owner's URL, and how the application logs in."""

    owner: str
    application: str


@contextlib.contextmanager
def cluster(**settings: str) -> Iterator[Cluster]:
    """A cluster that ends with the block. settings go on top of those for all."""
    # DATABASE_URL may name a server without durability, or somebody's own.
    os.environ.pop("DATABASE_URL", None)
    with postgres.Server(durable=True, **(SETTINGS | settings)) as server:
        yield Cluster(server)
