"""Rows of another time in the product's table: what was sent long ago, what is due in a month."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from bench.peers.own import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

# Rows as a sent receipt leaves them; what checks an INSERT would take five times as long.
FINISHED: LiteralString = """
INSERT INTO postlease.email_messages (
    id, template, parameters, to_addresses, producer, status, attempt_count, dispatched_at,
    provider, provider_message_id, template_version, attempts, created_at, available_at, sent_at,
    finished_at)
SELECT (lpad(to_hex(1500000000000 + n), 12, '0') || '70008000000000000000')::uuid, 'receipt',
       '{"total": "12.00", "order_number": "A-1"}', ARRAY['reader@example.com'], 'shop', 'sent', 1,
       t, 'ses', '0100018f-000000000000000000000000000000000000000000000001-000000', 'given',
       '[{"attempt": 1, "owner": "bench#0123456789abcdef", "outcome": "accepted"}]', t, t, t, t
FROM (SELECT n, now() - interval '80 days' + n * interval '1 second' AS t
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS old
"""
FAR_FUTURE: LiteralString = """
INSERT INTO postlease.email_messages (
    template, to_addresses, parameters, producer, priority, available_at)
SELECT 'receipt', ARRAY['reader' || n || '@example.com'], '{"total": "12.00"}', 'shop', 0,
       now() + interval '30 days' + n * interval '1 second'
FROM generate_series(1, %(number)s::integer) AS n
"""
_STEP = 50_000
_FILLERS = 2

THERE: LiteralString = "SELECT count(*) FROM postlease.email_messages WHERE finished_at IS NOT NULL"


def wait_on(url: str, messages: int, *, keep: bool = False) -> None:
    """Let so many receipts wait; keep leaves what is finished, and removes what is not."""
    if not keep:
        fill(url, messages)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM postlease.email_messages WHERE finished_at IS NULL")
    fill(url, messages, empty=False)


@contextlib.contextmanager
def unchecked(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Rows that are right by construction: no trigger looks at each."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        yield connection


def finished_up_to(url: str, wanted: int) -> None:
    """Let so many messages have been sent, a second after the other from 80 days ago on."""
    with psycopg.connect(url) as connection:
        [[there]] = connection.execute(THERE).fetchall()
    # Two connections for the two processors; in steps that leave the rows in order, nearly.
    with ThreadPoolExecutor(_FILLERS) as pool:
        for _ in pool.map(lambda first: _fill(url, first, wanted), range(there, wanted, _STEP)):
            pass


def _fill(url: str, first: int, wanted: int) -> None:
    with unchecked(url) as connection:
        connection.execute(FINISHED, {"first": first, "last": min(first + _STEP, wanted) - 1})


def due_in_a_month(url: str, number: int) -> None:
    """Let so many messages of the most urgent class wait for another month."""
    with unchecked(url) as connection:
        connection.execute(FAR_FUTURE, {"number": number})
