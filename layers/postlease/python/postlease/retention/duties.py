"""Who may do a chunk now, and where a duty goes on.

A chunk of rows is a transaction under a lock that ends with it. What calls the storage, which no
transaction may wait for, is held by a lease; a run that dies loses it after a minute.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString, TypeVar

from postlease.database import translated_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection, Database

Answer = TypeVar("Answer")

LEASE = timedelta(seconds=60)
"""Longer than the calls that a file takes: four or five, each at most twelve seconds."""

# Any number that is ours: one chunk at a time in a database.
LOCK_KEY = 0x7265746E6E

LOCK: LiteralString = """-- retention.lock
SELECT pg_try_advisory_xact_lock(%(key)s) AS held
"""

TAKE: LiteralString = """-- retention.take
INSERT INTO postlease.retention_duties AS d (duty, lease_owner, lease_expires_at)
VALUES (%(duty)s, %(owner)s, now() + %(lease)s::interval)
ON CONFLICT (duty) DO UPDATE
SET lease_owner = excluded.lease_owner, lease_expires_at = excluded.lease_expires_at
WHERE d.lease_owner IS NULL
   OR d.lease_owner = excluded.lease_owner
   OR d.lease_expires_at < now()
RETURNING d.duty
"""

# Not once it was another's, not even where that one has given it back: what was read is old then.
HOLD: LiteralString = """-- retention.hold
UPDATE postlease.retention_duties AS d
SET lease_expires_at = now() + %(lease)s::interval
WHERE d.duty = %(duty)s AND d.lease_owner = %(owner)s
RETURNING d.duty
"""

GIVE_BACK: LiteralString = """-- retention.give_back
UPDATE postlease.retention_duties AS d
SET lease_owner = NULL, lease_expires_at = NULL
WHERE d.duty = %(duty)s AND d.lease_owner = %(owner)s
"""

POSITION: LiteralString = """-- retention.position
SELECT d.position FROM postlease.retention_duties AS d WHERE d.duty = %(duty)s
"""

MOVE: LiteralString = """-- retention.move
INSERT INTO postlease.retention_duties AS d (duty, position)
VALUES (%(duty)s, %(position)s)
ON CONFLICT (duty) DO UPDATE SET position = excluded.position
"""


def locked(database: Database, chunk: Callable[[Connection], Answer]) -> Answer | None:
    """What chunk answered, committed; None when another run holds the lock."""
    with database.transaction() as connection:
        row = connection.execute(LOCK, {"key": LOCK_KEY}).fetchone()
        return chunk(connection) if row and row["held"] else None


class LostError(Exception):
    """Another run has had the duty meanwhile: whoever is told so changes nothing more."""


class Lease:
    """A duty of this run alone, while `take` and `hold` say so.

    A run may stand still for longer than its lease, so that another does its work. Whoever is about
    to write, or to delete what was listed or read, asks `hold` behind that reading.
    """

    def __init__(self, database: Database, duty: str) -> None:
        """Nothing is taken yet."""
        self._database = database
        self._named = {"duty": duty, "owner": secrets.token_hex(16), "lease": LEASE}

    def take(self) -> bool:
        """Take the duty, or keep it for a minute more; False while another run has it."""
        with translated_errors():
            return self._database.connection().execute(TAKE, self._named).fetchone() is not None

    def hold(self, connection: Connection | None = None) -> None:
        """Keep the duty for a minute more; LostError if it was another's since `take`.

        In a transaction on connection no other run takes it before the end of that.
        """
        with translated_errors():
            held = (connection or self._database.connection()).execute(HOLD, self._named).fetchone()
        if held is None:
            raise LostError

    def give_back(self) -> None:
        """Let another run have it. Harmless when it is not ours."""
        with translated_errors():
            self._database.connection().execute(GIVE_BACK, self._named)


def position(connection: Connection, duty: str) -> str:
    """How far the last run came with duty; empty: from the beginning."""
    with translated_errors():
        row = connection.execute(POSITION, {"duty": duty}).fetchone()
    return str(row["position"]) if row else ""


def move(connection: Connection, duty: str, place: str) -> None:
    """Let the next run go on with duty from place."""
    with translated_errors():
        connection.execute(MOVE, {"duty": duty, "position": place})
