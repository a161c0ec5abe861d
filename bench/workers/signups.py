"""Sign-ups in this process, and their bare SQL: `python -m bench.workers.signups <JSON>`.

The JSON says `login` (of the database's secret), `url` of a twin database's application login, and
`requests`. Each request is made through the function's handler; then the statements that it sent
are sent again, to the twin, in transactions as its own were and with what the twin answered instead
of what was answered then. Says the milliseconds of both.
"""

from __future__ import annotations

import contextlib
import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg

from bench.workers import arranging

if TYPE_CHECKING:
    from collections.abc import Iterator

_WARM_UPS = 20
BEGIN, COMMIT = "begin", "commit"


class Recorder:
    """Keeps what this process sends through psycopg: statements, parameters, what came back."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any, list[Any]]] = []
        self.is_on = False

    def install(self) -> None:
        """Listen at psycopg's connections from now on."""
        recorder = self
        connection: Any = psycopg.Connection
        cursors: Any = psycopg.Cursor
        execute, transaction = cursors.execute, connection.transaction

        def noting_execute(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
            cursor = execute(self, query, params, **more)
            if recorder.is_on:
                recorder.sent.append((query, params, _rows(cursor)))
            return cursor

        @contextlib.contextmanager
        def noting_transaction(self: Any, *rest: Any, **more: Any) -> Iterator[Any]:
            if recorder.is_on:
                recorder.sent.append((BEGIN, None, []))
            with transaction(self, *rest, **more) as block:
                yield block
            if recorder.is_on:
                recorder.sent.append((COMMIT, None, []))

        cursors.execute = noting_execute
        connection.transaction = noting_transaction


def main() -> None:
    """Be ready, sign up, say how long each took."""
    line, asked = arranging.Line(), arranging.given()
    arranging.deployed(
        asked["login"], CLIENT_LIMIT_PER_MINUTE="1000000", CLIENT_LIMIT_PER_HOUR="1000000"
    )
    from functions.auth import app  # noqa: PLC0415
    from postlease.database import connect  # noqa: PLC0415

    recorder = Recorder()
    recorder.install()
    own: list[float] = []
    bare: list[float] = []
    statements = 0
    with connect(asked["url"]) as twin:
        if not line.ready():
            return
        for number in range(asked["requests"] + _WARM_UPS):
            recorder.sent.clear()
            recorder.is_on = True
            started = time.perf_counter()
            answer = app.handler(_event(number), _CONTEXT)
            own.append((time.perf_counter() - started) * 1_000)
            recorder.is_on = False
            if answer["statusCode"] != 202:
                raise RuntimeError(f"{answer['statusCode']} after {recorder.sent[-1:]}")
            bare.append(_again(twin, recorder.sent))
            statements = sum(query not in {BEGIN, COMMIT} for query, _, _ in recorder.sent)
    line.done({"own": own[_WARM_UPS:], "bare": bare[_WARM_UPS:], "statements": statements})


def _again(twin: psycopg.Connection[Any], sent: list[tuple[Any, Any, list[Any]]]) -> float:
    """Milliseconds that the same statements take on the twin."""
    instead: dict[UUID, UUID] = {}
    seconds = 0.0
    with contextlib.ExitStack() as transaction:
        for query, params, rows in sent:
            given = _replaced(params, instead)
            started = time.perf_counter()
            if query == BEGIN:
                transaction.enter_context(twin.transaction())
            elif query == COMMIT:
                transaction.close()
            else:
                cursor = twin.execute(query, given)
                found = cursor.fetchall() if cursor.description else []
            seconds += time.perf_counter() - started
            if query not in {BEGIN, COMMIT}:
                _match(rows, found, instead)
    return seconds * 1_000


def _match(then: list[Any], now: list[Any], instead: dict[UUID, UUID]) -> None:
    if len(then) != len(now):
        raise RuntimeError(f"the twin answered {now} and not {then}")
    for old, new in zip(then, now, strict=True):
        pairs = zip(_values(old), _values(new), strict=True)
        instead |= {value: other for value, other in pairs if isinstance(value, UUID)}


def _values(row: Any) -> list[Any]:
    """A row of whichever kind its cursor makes."""
    match row:
        case dict():
            return list(row.values())
        case list() | tuple():
            return list(row)
        case _:
            return [row]


def _replaced(value: Any, instead: dict[UUID, UUID]) -> Any:
    match value:
        case dict():
            return {name: _replaced(one, instead) for name, one in value.items()}
        case list() | tuple():
            return [_replaced(one, instead) for one in value]
        case UUID():
            return instead.get(value, value)
        case _:
            return value


def _rows(cursor: Any) -> list[Any]:
    """What came back; the cursor is left as it was."""
    if not cursor.description:
        return []
    rows: list[Any] = cursor.fetchall()
    if rows:
        cursor.scroll(0, mode="absolute")
    return rows


def _event(number: int) -> dict[str, Any]:
    body = json.dumps({"email": f"reader{number}@example.com"})
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/v1/signups",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "content-length": str(len(body))},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": "api.example.com",
            "http": {
                "method": "POST",
                "path": "/v1/signups",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.10",
                "userAgent": "bench",
            },
            "requestId": f"bench-{number}",
            "routeKey": "$default",
            "stage": "$default",
        },
        "body": body,
        "isBase64Encoded": False,
    }


_CONTEXT = SimpleNamespace(
    function_name="auth",
    function_version="$LATEST",
    memory_limit_in_mb=1024,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:auth",
    aws_request_id="bench",
    log_group_name="auth",
    log_stream_name="bench",
    get_remaining_time_in_millis=lambda: 10_000,
)


if __name__ == "__main__":
    main()
