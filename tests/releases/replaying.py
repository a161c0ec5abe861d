"""A release's calls on a database whose schema may be a later one's."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
from psycopg.rows import dict_row

from tests.releases.recording import MOMENTARY, answer_of
from tests.releases.snapshot import Answer, from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.releases.snapshot import Call, Snapshot


class BrokenError(AssertionError):
    """A statement of the release that fails now, or is answered otherwise. name is its name."""

    def __init__(self, number: int, name: str, why: str) -> None:
        super().__init__(f"call {number}, {name}: {why}")
        self.name = name
        self.why = why


def replay(snapshot: Snapshot, logins: Mapping[str, str]) -> None:
    """Say all that the snapshot's actors said, each over a connection by its login.

    Raises BrokenError for the first statement that the database refuses, or whose answer has other
    columns, another number of rows or other values than the release knew.
    """
    with contextlib.ExitStack() as opened:
        connections = {
            actor: opened.enter_context(
                psycopg.connect(
                    login, autocommit=True, prepare_threshold=None, row_factory=dict_row
                )
            )
            for actor, login in logins.items()
        }
        answered: dict[int, list[dict[str, Any]]] = {}
        for number, call in enumerate(snapshot.calls):
            connection = connections[call.by]
            try:
                if call.is_bound:
                    connection.execute(cast("LiteralString", call.run))
                else:
                    answered[number] = _say(connection, snapshot, call, answered)
            except psycopg.Error as error:
                raise BrokenError(number, call.run, str(error)) from error
            except _OtherAnswerError as error:
                raise BrokenError(number, call.run, str(error)) from None


class _OtherAnswerError(Exception):
    pass


def _say(
    connection: psycopg.Connection[dict[str, Any]],
    snapshot: Snapshot,
    call: Call,
    answered: dict[int, list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    text = cast("LiteralString", snapshot.statements[call.run])
    given = None
    if call.parameters is not None:
        given = {name: _unlinked(value, answered) for name, value in call.parameters.items()}
    answer, rows = answer_of(connection.execute(text, given))
    expected = call.answer or Answer(0)
    if answer.columns != expected.columns:
        raise _OtherAnswerError(f"columns {answer.columns}, not {expected.columns}")
    if call.run in MOMENTARY:
        return rows
    if answer.rows != expected.rows:
        raise _OtherAnswerError(f"{answer.rows} rows, not {expected.rows}")
    for found, known in zip(_in_order(answer), _in_order(expected), strict=False):
        if differing := [name for name in known if found.get(name) != known[name]]:
            name = differing[0]
            raise _OtherAnswerError(f"{name} is {found.get(name)!r}, not {known[name]!r}")
    return rows


def _in_order(answer: Answer) -> list[dict[str, Any]]:
    """Not every statement sorts its rows."""
    return sorted(answer.values, key=lambda row: json.dumps(row, sort_keys=True))


def _unlinked(value: Any, answered: dict[int, list[dict[str, Any]]]) -> Any:
    if isinstance(value, list):
        return [_unlinked(one, answered) for one in value]
    if isinstance(value, dict) and "from" in value:
        number, place, column = value["from"]
        return answered[number][place][column]
    if isinstance(value, dict) and "array" in value:
        return "{" + ",".join(str(_unlinked(one, answered)) for one in value["array"]) + "}"
    return from_json(value)
