"""What the overview counts in the database: the queue, the gates, the last hour minute by minute.

Ids, counts and ages; no address.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from postlease import gate
from postlease.database import connect, translated_errors

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.database import Connection
    from postlease.gate import GateReport

MINUTES = 60
"""How many minutes the charts reach back."""

QUEUE: LiteralString = """-- console.queue
SELECT now() AS looked_at,
       count(*) FILTER (WHERE m.status = 'pending') AS queued,
       count(*) FILTER (WHERE m.status = 'pending' AND m.available_at <= now()) AS due,
       count(*) FILTER (WHERE m.status = 'sending') AS sending,
       count(*) FILTER (WHERE m.status = 'sent') AS sent,
       count(*) FILTER (WHERE m.status = 'failed') AS failed,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now())
           AS expired_leases,
       count(*) FILTER (WHERE m.status = 'sending' AND m.lease_expires_at < now()
                          AND m.dispatched_at IS NOT NULL) AS unknown,
       coalesce(extract(epoch FROM now() - min(m.available_at)
           FILTER (WHERE m.status = 'pending' AND m.available_at <= now())), 0)::float8
           AS oldest_due_seconds
FROM postlease.email_messages AS m
"""

MINUTE_BY_MINUTE: LiteralString = """-- console.minutes
SELECT floor(extract(epoch FROM now() - m.finished_at) / 60)::int AS ago,
       count(*) FILTER (WHERE m.status = 'sent') AS sent,
       count(*) FILTER (WHERE m.status = 'failed') AS failed,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY
           greatest(extract(epoch FROM m.sent_at - m.available_at), 0)::float8)
           FILTER (WHERE m.status = 'sent') AS waited
FROM postlease.email_messages AS m
WHERE m.finished_at > now() - make_interval(mins => %(minutes)s)
  AND m.finished_at <= now()
GROUP BY ago
"""

REASONS: LiteralString = """-- console.reasons
SELECT m.failure_reason AS name, count(*) AS found
FROM postlease.email_messages AS m
WHERE m.status = 'failed' AND m.finished_at > now() - make_interval(mins => %(minutes)s)
GROUP BY m.failure_reason
ORDER BY found DESC, name
"""

OUTCOMES: LiteralString = """-- console.outcomes
SELECT a.one ->> 'outcome' AS name, count(*) AS found
FROM postlease.email_messages AS m, jsonb_array_elements(m.attempts) AS a (one)
WHERE (m.finished_at IS NULL OR m.finished_at > now() - make_interval(mins => %(minutes)s))
  AND (a.one ->> 'ended_at')::timestamptz > now() - make_interval(mins => %(minutes)s)
GROUP BY a.one ->> 'outcome'
ORDER BY found DESC, name
"""


@dataclass(frozen=True, slots=True)
class Queue:
    """All messages at one moment. due: pending ones whose time has come; seconds are 0 without."""

    looked_at: datetime
    queued: int = 0
    due: int = 0
    sending: int = 0
    sent: int = 0
    failed: int = 0
    expired_leases: int = 0
    unknown: int = 0
    oldest_due_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Minute:
    """What ended in one minute. p50 and p95 are seconds from due to sent; None: nothing was."""

    sent: int = 0
    failed: int = 0
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The database at one moment.

    minutes are the last MINUTES, the oldest first; the last one is not over. reasons are those
    of messages that failed in that time; outcomes those of attempts that ended
    in the last OUTCOME_MINUTES.
    """

    queue: Queue
    gates: list[GateReport] = field(default_factory=list)
    minutes: list[Minute] = field(default_factory=lambda: [Minute()] * MINUTES)
    reasons: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)


OUTCOME_MINUTES = 10
"""How many minutes back attempts tell how the provider is."""


SHARE = 10
"""Reading takes at most one part of so many of the time that passes."""

_QUICK_SECONDS = 0.25
_LIMITS = "-c statement_timeout=10s -c lock_timeout=2s"


def patient(database_url: str) -> str:
    """The URL's login, for one who waits no longer than a page may take."""
    options = conninfo_to_dict(database_url).get("options") or ""
    return make_conninfo(database_url, options=f"{options} {_LIMITS}".strip())


class Reader:
    """Reads the figures for all pages: one at a time, and where that takes long not at each look.

    A million messages are counted in a second, and a page looks every three.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Figures | None = None
        self._until = 0.0

    def read(self, database_url: str) -> Figures:
        """The figures as they are, or were of late: they tell when. Raises as `read` does."""
        with self._lock:
            began = time.monotonic()
            if self._kept is None or began >= self._until:
                self._kept = None
                self._kept = read(database_url)
                took = time.monotonic() - began
                self._until = began + (SHARE * took if took > _QUICK_SECONDS else 0)
            return self._kept


def read(database_url: str) -> Figures:
    """The figures as they are now. DatabaseError, UnavailableError: there are none to be had."""
    try:
        connection = connect(patient(database_url))
    except psycopg.Error:
        with translated_errors():
            raise
    with connection, translated_errors(), connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        queue = Queue(**(connection.execute(QUEUE).fetchone() or {}))
        return Figures(
            queue,
            gate.read(connection),
            _minutes(connection),
            _counted(connection, REASONS, MINUTES),
            _counted(connection, OUTCOMES, OUTCOME_MINUTES),
        )


def _counted(connection: Connection, statement: LiteralString, minutes: int) -> dict[str, int]:
    rows = connection.execute(statement, {"minutes": minutes}).fetchall()
    return {row["name"]: row["found"] for row in rows}


def _minutes(connection: Connection) -> list[Minute]:
    found = [Minute()] * MINUTES
    for row in connection.execute(MINUTE_BY_MINUTE, {"minutes": MINUTES}):
        p50, p95 = row["waited"] or (None, None)
        found[MINUTES - 1 - row["ago"]] = Minute(row["sent"], row["failed"], p50, p95)
    return found
