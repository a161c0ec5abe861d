"""The wire of the chaos suite: what it says happened has happened, and what it prevents has not."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.chaos.wire import LOOPBACK, Statement, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSERT = """-- outbox.record
    INSERT INTO chaos_notes VALUES (%s), (%s)"""


class Watch:
    """Notes where it was asked, and refuses at one of the places."""

    def __init__(self, *, refuses: str = "") -> None:
        self.seen: list[tuple[str, str, int, int]] = []
        self._refuses = refuses

    def asked(self, statement: Statement) -> bool:
        return self._note("asked", statement)

    def stops_at_commit(self, statement: Statement) -> bool:
        return statement.title == "outbox.record"

    def at_commit(self, statement: Statement) -> bool:
        return self._note("at_commit", statement)

    def answered(self, statement: Statement) -> bool:
        return self._note("answered", statement)

    def _note(self, place: str, statement: Statement) -> bool:
        self.seen.append((place, statement.title, statement.rows, statement.pid))
        return place != self._refuses


@pytest.fixture
def notes(empty_database: Callable[[], str]) -> str:
    """A database with an empty table."""
    url = empty_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE chaos_notes (note integer)")
    return url


@pytest.fixture
def insert(notes: str) -> Iterator[Callable[[Watch], None]]:
    """Inserts two rows through a wire with that watch."""
    with ExitStack() as opened:

        def run(watch: Watch) -> None:
            parts = urlsplit(notes)
            wire = opened.enter_context(Wire(parts.hostname or "", parts.port or 0))
            wire.owner_of = lambda _: os.getpid()
            wire.watch = watch
            login = parts.netloc.rpartition("@")[0]
            url = urlunsplit(parts._replace(netloc=f"{login}@{LOOPBACK}:{wire.port}"))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(INSERT, [1, 2])
                connection.execute("SELECT 1")

        yield run


def stored(url: str) -> int:
    """How many rows are there."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM chaos_notes").fetchone()
    assert row
    return int(row[0])


def test_a_titled_statement_is_followed_to_its_answer(
    insert: Callable[[Watch], None], notes: str
) -> None:
    watch = Watch()
    insert(watch)
    title, pid = "outbox.record", os.getpid()
    assert watch.seen == [
        ("asked", title, 0, pid),
        ("at_commit", title, 2, pid),
        ("answered", title, 2, pid),
    ]
    assert stored(notes) == 2


@pytest.mark.parametrize(("place", "rows"), [("asked", 0), ("at_commit", 0), ("answered", 2)])
def test_what_is_cut_before_the_commit_never_was_and_after_it_is_there(
    insert: Callable[[Watch], None], notes: str, place: str, rows: int
) -> None:
    with pytest.raises(psycopg.OperationalError):
        insert(Watch(refuses=place))
    assert stored(notes) == rows
