"""How much room a message takes in the database: while it waits, and when it was sent.

`python -m bench.storage` runs the local stack. Sizes are those of all tables of the schema and
their indexes after VACUUM, less what they had when empty, for each message.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import psycopg

from bench.measuring import arguments
from local.stack import Stack

if TYPE_CHECKING:
    from typing import Any

_BATCH = 100
_SIZE = """SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
    WHERE relnamespace = 'postlease'::regnamespace AND relkind = 'r'"""


def main(line: list[str] | None = None) -> int:
    """Print kB a message."""
    parser = arguments.parser("bench.storage", __doc__)
    arguments.count(parser, "messages", 20_000, "so many receipts, with two parameters and a key")
    messages = parser.parse_args(line).messages
    with (
        Stack(settings={"SWEEP_LINGER_SECONDS": "0"}) as stack,
        psycopg.connect(stack.database_url, autocommit=True) as connection,
    ):
        empty = _size(connection)
        for start in range(0, messages, _BATCH):
            batch = [_receipt(number) for number in range(start, min(start + _BATCH, messages))]
            connection.execute("SELECT postlease.enqueue_emails(%s)", (json.dumps(batch),))
        _report("waiting", _size(connection) - empty, messages)
        while stack.invoke("sweep").get("claimed", 0):
            pass
        queue = stack.queue()
        _report(
            ", ".join(f"{n} {status}" for status, n in queue.items()),
            _size(connection) - empty,
            messages,
        )
    return 0


def _receipt(number: int) -> dict[str, Any]:
    return {
        "template": "receipt",
        "to_addresses": [f"person{number}@example.com"],
        "parameters": {"order_number": f"A-{number}", "total": "12.00"},
        "idempotency_key": f"receipt-{number}",
    }


def _size(connection: psycopg.Connection[Any]) -> int:
    connection.execute("VACUUM ANALYZE")
    row = connection.execute(_SIZE).fetchone()
    assert row is not None  # noqa: S101  an aggregate always has a row
    return int(row[0])


def _report(when: str, size: int, messages: int) -> None:
    print(f"{when}: {size / messages / 1000:.2f} kB a message", flush=True)


if __name__ == "__main__":
    sys.exit(arguments.status("bench.storage", main))
