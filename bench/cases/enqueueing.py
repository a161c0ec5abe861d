"""Asking for mail, against a bare INSERT of the same row on the same connection."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from bench.measuring.figures import figure, paired
from bench.measuring.findings import Finding, Table
from bench.measuring.wording import spread
from bench.peers.own import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

BLOCKS = 20
IN_BLOCK = 50
BATCH = 1_000

ASK: LiteralString = "SELECT postlease.enqueue_email('receipt', ARRAY[%s], %s::jsonb)"
ASK_MANY: LiteralString = "SELECT count(*) FROM postlease.enqueue_emails(%s::jsonb)"
INSERT: LiteralString = (
    "INSERT INTO postlease.email_messages (template, to_addresses, parameters, producer)"
    " VALUES ('receipt', ARRAY[%s], %s::jsonb, session_user) RETURNING id"
)
INSERT_MANY: LiteralString = (
    "INSERT INTO postlease.email_messages (template, to_addresses, parameters, producer)"
    " SELECT 'receipt', ARRAY[said.one], said.parameters::jsonb, session_user"
    " FROM unnest(%s::text[], %s::text[]) AS said (one, parameters) RETURNING id"
)


def enqueueing(cluster: Cluster, scale: Scale) -> Finding:
    """Asking for mail, one a transaction and a thousand, against bare INSERTs."""
    url = cluster.postlease("postlease").owner
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(EMPTY)
        singles = _singles(connection)
        blocks = BLOCKS if scale.large else BLOCKS // 2
        single = _alternate(blocks, IN_BLOCK, singles)
        batch = _alternate(blocks, 1, _batches(connection))
    rows = []
    for name, size, (ours, bare) in (("one", IN_BLOCK, single), ("a thousand", BATCH, batch)):
        for what, times in (("Postlease", ours), ("bare INSERT", bare)):
            rates = figure([size / seconds for seconds in times])
            rows.append((f"{name} a transaction, {what}", spread(rates)))
    return Finding(
        "Asking for mail",
        "`enqueue_email` and `enqueue_emails` against INSERTs of the same rows into the same table,"
        " in turn on one connection; the table's own checks are in both.",
        (Table(("enqueue", "messages/s"), tuple(rows)),),
        {
            "enqueue_single_vs_insert": paired(single[1], single[0]),
            "enqueue_batch_vs_insert": paired(batch[1], batch[0]),
        },
    )


def _alternate(
    blocks: int, size: int, pair: tuple[Callable[[int], None], Callable[[int], None]]
) -> tuple[list[float], list[float]]:
    """Seconds of each block of the one and of the other, after one of each that does not count."""
    times: tuple[list[float], list[float]] = ([], [])
    for block in range(blocks + 1):
        for place, act in enumerate(pair):
            started = time.perf_counter()
            for number in range(size):
                act(block * size + number)
            if block:
                times[place].append(time.perf_counter() - started)
    return times


def _singles(
    connection: psycopg.Connection[Any],
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    def act(statement: LiteralString) -> Callable[[int], None]:
        def one(number: int) -> None:
            connection.execute(statement, [_address(number), json.dumps(_parameters(number))])

        return one

    return act(ASK), act(INSERT)


def _batches(
    connection: psycopg.Connection[Any],
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    addresses = [_address(number) for number in range(BATCH)]
    parameters = [_parameters(number) for number in range(BATCH)]
    asked = json.dumps(
        [
            {"template": "receipt", "to_addresses": [one], "parameters": two}
            for one, two in zip(addresses, parameters, strict=True)
        ]
    )
    texts = [json.dumps(one) for one in parameters]

    def ours(_: int) -> None:
        connection.execute(ASK_MANY, [asked])

    def bare(_: int) -> None:
        connection.execute(INSERT_MANY, [addresses, texts])

    return ours, bare


def _address(number: int) -> str:
    return f"reader{number}@example.com"


def _parameters(number: int) -> dict[str, str]:
    return {"order_number": f"A-{number}", "total": "12.00"}
