"""Listens to connections while a story is told, at the driver: below all code of ours."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

import psycopg
from psycopg.adapt import Transformer

from tests.releases.snapshot import Answer, Call, Snapshot, to_json
from tests.releases.story import tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.releases.actors import Actors

# As `outbox.arrays` writes it: the ids in it are others in each database.
_ARRAY_OF_IDS = re.compile(r"\{[0-9a-f]{32}(,[0-9a-f]{32})*\}")

MOMENTARY = ("migrations.ledger", "outbox.read_chunk", "retention.last_day")
"""What is answered otherwise by every release, in every database, on every day, and may be."""


def answer_of(cursor: psycopg.Cursor[Any]) -> tuple[Answer, list[dict[str, Any]]]:
    """A statement's answer, and its whole rows. Takes no row from the cursor's reader."""
    result = cursor.pgresult
    if result is None or cursor.description is None:
        return Answer(max(cursor.rowcount, 0)), []
    types = cursor.connection.adapters.types
    names = [column.name for column in cursor.description]
    kinds = [types.get(column.type_code) for column in cursor.description]
    columns = tuple(
        f"{name} {kind.name if kind else 'unknown'}"
        for name, kind in zip(names, kinds, strict=True)
    )
    transformer = Transformer(cursor.connection)
    transformer.set_pgresult(result)
    loaded = transformer.load_rows(0, result.ntuples, tuple)
    rows = [dict(zip(names, row, strict=True)) for row in loaded]
    values = tuple(
        {name: value for name, value in row.items() if isinstance(value, bool | int | str)}
        for row in rows
    )
    return Answer(result.ntuples, columns, values if any(values) else ()), rows


class Recorder:
    """Writes down what the connections of some actors say, while `listening`."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._actors: dict[int, str] = {}
        self._seen: dict[UUID | datetime, list[Any]] = {}

    def follow(self, connection: psycopg.Connection[Any], actor: str) -> None:
        """Write down what is said over connection, as actor's, transactions included."""
        self._actors[id(connection)] = actor
        make = connection.transaction

        @contextlib.contextmanager
        def transaction(**options: Any) -> Iterator[psycopg.Transaction]:
            with make(**options) as running:
                self.snapshot.calls.append(Call(actor, "BEGIN"))
                yield running
            # A block that an exception ends is no part of a story.
            self.snapshot.calls.append(Call(actor, "COMMIT"))

        connection.transaction = transaction  # type: ignore[method-assign,assignment]

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Statements of the followed connections are written down within this block."""
        run = psycopg.Cursor.execute

        def execute(
            cursor: psycopg.Cursor[Any], query: Any, params: Any = None, **options: Any
        ) -> psycopg.Cursor[Any]:
            answered = run(cursor, query, params, **options)
            actor = self._actors.get(id(cursor.connection))
            if actor is not None:
                self._note(actor, query, params, cursor)
            return answered

        with mock.patch.object(psycopg.Cursor, "execute", execute):
            yield

    def _note(
        self,
        actor: str,
        text: str,
        parameters: Mapping[str, Any] | None,
        cursor: psycopg.Cursor[Any],
    ) -> None:
        name = self.snapshot.named(text)
        answer, rows = answer_of(cursor)
        if name in MOMENTARY:
            answer = Answer(0, answer.columns)
        given = None
        if parameters is not None:
            given = {key: self._linked(value) for key, value in parameters.items()}
        number = len(self.snapshot.calls)
        self.snapshot.calls.append(Call(actor, name, given, answer))
        for place, row in enumerate(rows):
            for column, value in row.items():
                if isinstance(value, UUID | datetime):
                    # The latest: which of several messages a claim finds is its own affair.
                    self._seen[value] = [number, place, column]

    def _linked(self, value: object) -> Any:
        """The parameter, or where it came from: ids and moments are others in each database."""
        if isinstance(value, list | tuple):
            return [self._linked(one) for one in value]
        if isinstance(value, UUID | datetime) and value in self._seen:
            return {"from": self._seen[value]}
        if isinstance(value, str) and _ARRAY_OF_IDS.fullmatch(value):
            return {"array": [self._linked(UUID(one)) for one in value[1:-1].split(",")]}
        return to_json(value)


def record(actors: Actors) -> Snapshot:
    """Let the actors tell the story on an empty database, and write it down."""
    recorder = Recorder()
    recorder.follow(actors.connection, "application")
    recorder.follow(actors.producer, "producer")
    recorder.follow(actors.owner, "owner")
    with recorder.listening():
        tell(actors)
    return recorder.snapshot
