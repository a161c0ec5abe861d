"""A real PostgreSQL for every test that asks: one server a run, one migrated database a run."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from local import postgres
from postlease import migrations
from postlease.database import Connection, Database, connect
from postlease.telemetry import logger
from tests.canaries import LOG_LINE_PREFIX, entries, looks_personal
from tests.deployed import aws, aws_endpoint, environment, logs, secret_arns, secret_store
from tests.emptying import CLEAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["aws", "aws_endpoint", "environment", "logs", "secret_arns", "secret_store"]

ROOT = Path(__file__).parents[1]
SQL = ROOT / "sql"

APPLICATION = f" user={migrations.APPLICATION_ROLE} "


class Leaks(logging.Handler):
    """Collects what the product's own logger was given that must stand in no log."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what looks like an address or a token, wherever in the record it is."""
        text = f"{record.getMessage()} {record.__dict__} {record.exc_info}"
        if looks_personal(text):
            self.found.append(text)


@pytest.fixture(autouse=True)
def leaks() -> Iterator[list[str]]:
    """Fails a test in which the product logged an address or a token."""
    collector = Leaks()
    logger.addHandler(collector)
    yield collector.found
    logger.removeHandler(collector)
    assert collector.found == []


class Undescribed(logging.Handler):
    """Collects the answers that handlers gave and that their routes do not describe."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep route and answer."""
        if record.getMessage() == "answer is not described":
            self.answers.append((record.__dict__["route"], record.__dict__["answer"]))


@pytest.fixture(autouse=True)
def undescribed() -> Iterator[list[tuple[str, str]]]:
    """Fails a test in which a route answered what it does not describe."""
    collector = Undescribed()
    logger.addHandler(collector)
    yield collector.answers
    logger.removeHandler(collector)
    assert collector.answers == []


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A superuser's URL of a server that lives as long as the run.

    Of a server of our own the log is read at the end: what the application's role did may have left
    no address and no token there. What the tests do as owner may.
    """
    if given := os.environ.get("DATABASE_URL"):
        yield given
        return
    with postgres.Server(log_line_prefix=LOG_LINE_PREFIX, log_timezone="UTC") as server:
        yield server.url
        told = entries(server.log.read_text(errors="replace"))
    assert [entry for entry in told if APPLICATION in entry and looks_personal(entry)] == []


@pytest.fixture(scope="session")
def empty_database(server_url: str) -> Iterator[Callable[[], str]]:
    """Makes databases of a test's own, not migrated."""
    names: list[str] = []

    def make() -> str:
        names.append(f"postlease_test_{secrets.token_hex(6)}")
        return postgres.create_database(server_url, names[-1])

    yield make
    if "DATABASE_URL" in os.environ:  # a server of our own goes as a whole
        for name in names:
            postgres.drop_database(server_url, name)


@pytest.fixture(scope="session")
def application_password(server_url: str) -> str:
    """A role's password belongs to the whole cluster: two runs on one server must agree on it."""
    return postgres.application_password(server_url)


@pytest.fixture(scope="session")
def owner_url(empty_database: Callable[[], str], application_password: str) -> str:
    """The owner's URL of the run's migrated database."""
    url = empty_database()
    with connect(url) as connection:
        migrations.migrate(connection, SQL)
        migrations.set_application_password(connection, application_password)
    return url


@pytest.fixture(scope="session")
def application_conninfo(owner_url: str, application_password: str) -> str:
    """How the application role logs in to the run's database."""
    return make_conninfo(owner_url, user=migrations.APPLICATION_ROLE, password=application_password)


@pytest.fixture(scope="session")
def owner_connection(owner_url: str) -> Iterator[Connection]:
    """The owner's connection of the whole run."""
    with connect(owner_url) as connection:
        yield connection


@pytest.fixture
def owner(owner_connection: Connection) -> Connection:
    """The owner's connection to empty tables: arranges rows and looks at them."""
    owner_connection.execute(CLEAN)
    return owner_connection


@pytest.fixture
def open_application(
    owner: Connection, application_conninfo: str
) -> Iterator[Callable[[], Connection]]:
    """Opens connections of the application role: one for each process that a test plays."""
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(connect(application_conninfo))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def application(open_application: Callable[[], Connection]) -> Connection:
    """One connection of the application role, to empty tables."""
    return open_application()


@pytest.fixture
def database(owner: Connection, application_conninfo: str) -> Iterator[Database]:
    """The application role's database as handlers use it, with empty tables."""
    kept = Database(lambda *, refresh: application_conninfo)
    yield kept
    kept.discard()
