"""A long transaction elsewhere keeps dead rows in the table; the queue does not pay for them."""

from __future__ import annotations

from typing import Any, LiteralString, cast

from psycopg import IsolationLevel

from postlease import outbox
from postlease.database import Connection, connect
from tests import arrange
from tests.emptying import ANEW

DEAD = 5_000
PENDING: LiteralString = """
INSERT INTO postlease.email_messages (template, to_addresses, producer)
SELECT 'receipt', ARRAY['reader@example.com'], 'shop' FROM generate_series(1, %s)
"""
SENT: LiteralString = """
UPDATE postlease.email_messages
SET status = 'sent', sent_at = now(), finished_at = now(), provider = 'ses',
    provider_message_id = 'p', lease_owner = NULL, claimed_at = NULL, lease_expires_at = NULL
"""


class Measuring:
    """Stands in for a connection: runs each statement for its plan, and keeps what it read.

    It shows no rows, so a claim that found some looks once more from the beginning.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.blocks: list[int] = []

    def cursor(self, **_: Any) -> Measuring:
        return self

    def execute(self, statement: LiteralString, parameters: Any = None) -> Measuring:
        explained = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)\n" + statement
        row = self._connection.execute(explained, parameters).fetchone()
        assert row
        plan = row["QUERY PLAN"][0]["Plan"]
        self.blocks.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return self

    def fetchall(self) -> list[Any]:
        return []


def test_a_claim_does_not_read_what_an_old_snapshot_keeps(
    owner: Connection, application: Connection, owner_url: str
) -> None:
    """DBL-03: 5,000 mails go through while a transaction elsewhere sees them all as pending."""
    owner.execute(ANEW)
    owner.execute(PENDING, [DEAD])
    floors = outbox.Floors()
    with connect(owner_url) as elsewhere:
        elsewhere.isolation_level = IsolationLevel.REPEATABLE_READ
        with elsewhere.transaction():
            assert arrange.statuses(elsewhere) == {"pending": DEAD}
            assert len(arrange.claim(application, DEAD, floors=floors)) == DEAD
            owner.execute(SENT)
            arrange.enqueue(owner, 10)
            # From the beginning if the last look from there is long ago; the next one is not.
            assert len(arrange.claim(application, 5, floors=floors)) == 5
            measuring = Measuring(application)
            arrange.claim(cast("Connection", measuring), 5, floors=floors)
            assert arrange.statuses(elsewhere) == {"pending": DEAD}
    assert arrange.statuses(owner) == {"sent": DEAD, "sending": 10}
    behind_the_floor, from_the_beginning = measuring.blocks
    # A version that stayed on its page has no entry of its own.
    assert behind_the_floor < 500 < DEAD / 2 < from_the_beginning
