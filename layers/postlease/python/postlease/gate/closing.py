"""Open or closed, and who may pass a closed gate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString, assert_never

from postlease.database import translated_errors
from postlease.gate.pacing import halve_rate
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Throttled,
    Unknown,
    Unreachable,
)

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=10)

ACCEPTED_OFTEN = timedelta(seconds=10)
"""How old the last acceptance may be before a newer one is noted: good times write little."""

FAILURES_LIMIT = 5
"""So many calls in a row that reached nobody, over all workers, close the gate."""

LOOK: LiteralString = """-- gate.look
SELECT g.closed_at IS NOT NULL AS closed, g.close_reason AS reason, g.closed_by,
       g.closed_at IS NOT NULL AND g.probe_at <= now() AS probe_is_due,
       g.failures_in_a_row, g.rate_per_second
FROM postlease.provider_gates AS g
WHERE g.provider = %(provider)s
"""

TAKE_PROBE: LiteralString = """-- gate.take_probe
UPDATE postlease.provider_gates AS g
SET probe_at = now() + least(g.pause * 2, %(longest)s::interval),
    pause = least(g.pause * 2, %(longest)s::interval),
    updated_at = now()
WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL AND g.probe_at <= now()
RETURNING g.closed_by
"""

OPEN: LiteralString = """-- gate.open
UPDATE postlease.provider_gates AS g
SET closed_at = NULL,
    close_reason = NULL,
    closed_by = NULL,
    probe_at = NULL,
    pause = %(pause)s::interval,
    failures_in_a_row = 0,
    accepted_at = CASE WHEN %(accepted)s
        THEN greatest(g.accepted_at, c.began_at) ELSE g.accepted_at END,
    updated_at = now()
FROM (SELECT now() - %(age)s::interval) AS c (began_at)
WHERE g.provider = %(provider)s
  AND NOT g.is_paused
  -- What was on its way when the gate was closed says nothing about the time since.
  AND (g.closed_at <= c.began_at
       OR g.closed_at IS NULL
          AND (g.failures_in_a_row > 0
               OR %(accepted)s AND coalesce(g.accepted_at, '-infinity')
                  <= c.began_at - %(often)s::interval))
RETURNING g.provider
"""

CLOSE: LiteralString = """-- gate.close
INSERT INTO postlease.provider_gates AS g (provider, closed_at, close_reason, closed_by, probe_at)
VALUES (%(provider)s, now(), %(reason)s, %(message_id)s, now() + %(pause)s::interval)
ON CONFLICT (provider) DO UPDATE
SET closed_at = now(),
    close_reason = EXCLUDED.close_reason,
    closed_by = EXCLUDED.closed_by,
    probe_at = EXCLUDED.probe_at,
    updated_at = now()
WHERE g.closed_at IS NULL
RETURNING coalesce(g.accepted_at > (
    SELECT m.blocked_at FROM postlease.email_messages AS m
    WHERE m.id = %(message_id)s AND m.blocked_as = %(provider)s || ' ' || %(reason)s
), false) AS others_pass
"""

COUNT_FAILURE: LiteralString = """-- gate.count_failure
INSERT INTO postlease.provider_gates AS g (provider, failures_in_a_row)
VALUES (%(provider)s, 1)
ON CONFLICT (provider) DO UPDATE
SET failures_in_a_row = g.failures_in_a_row + 1,
    (closed_at, close_reason, probe_at) = (
        SELECT now(), %(reason)s, now() + %(pause)s::interval
        WHERE g.failures_in_a_row + 1 >= %(limit)s),
    updated_at = now()
WHERE g.closed_at IS NULL
RETURNING g.closed_at IS NOT NULL AS closed
"""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate at one moment. rate_per_second is None where nothing is paced."""

    closed: bool
    reason: str | None
    closed_by: UUID | None
    probe_is_due: bool
    failures_in_a_row: int
    rate_per_second: float | None


@dataclass(frozen=True, slots=True)
class Closing:
    """That a call closed the gate.

    others_pass: its message closed it with the same answer before, and a call that began later was
    accepted.
    """

    others_pass: bool


OPEN_GATE = GateState(
    closed=False,
    reason=None,
    closed_by=None,
    probe_is_due=False,
    failures_in_a_row=0,
    rate_per_second=None,
)
"""A provider that nobody has noted anything about."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The right to one call through a closed gate; avoid is the message that closed it."""

    avoid: UUID | None


def look(connection: Connection, provider: str) -> GateState:
    """The gate as it is, without a lock."""
    with translated_errors():
        row = connection.execute(LOOK, {"provider": provider}).fetchone()
    return GateState(**row) if row else OPEN_GATE


def take_probe(connection: Connection, provider: str) -> Probe | None:
    """Take the one probe that is due, if any, and commit.

    The next is due after a pause twice as long, at most ten minutes, whatever becomes of this one:
    a prober that dies costs one interval. None: the gate is open, or somebody else probes.
    """
    parameters = {"provider": provider, "longest": LONGEST_PAUSE}
    with translated_errors():
        row = connection.execute(TAKE_PROBE, parameters).fetchone()
    return Probe(row["closed_by"]) if row else None


def open_gate(
    connection: Connection,
    provider: str,
    *,
    age: timedelta = timedelta(0),
    accepted: bool = False,
) -> bool:
    """Let everybody pass, forget failures and pause, and commit; whether that changed anything.

    age is how long ago the call began whose answer says so: a gate that was closed since stays
    closed, and one that an operator paused stays so in any case. accepted: the call's mail was
    taken, which is remembered.
    """
    parameters = {
        "provider": provider,
        "pause": FIRST_PAUSE,
        "age": age,
        "accepted": accepted,
        "often": ACCEPTED_OFTEN,
    }
    with translated_errors():
        return connection.execute(OPEN, parameters).fetchone() is not None


def close_gate(
    connection: Connection, provider: str, *, reason: str, message_id: UUID | None = None
) -> Closing | None:
    """Let nobody pass but probes, and commit; None if it was closed already.

    reason is a slug; message_id is the message whose answer said so.
    """
    parameters = {
        "provider": provider,
        "reason": reason,
        "message_id": message_id,
        "pause": FIRST_PAUSE,
    }
    with translated_errors():
        row = connection.execute(CLOSE, parameters).fetchone()
    return Closing(**row) if row else None


def note(
    connection: Connection, provider: str, message_id: UUID, outcome: Outcome, *, age: timedelta
) -> Closing | None:
    """Let the gate know what a call came to that began age ago, and commit; whether it closed it.

    Any answer but blocked opens it, if the call began after the closing. An unknown outcome and
    a refusal without a call say nothing about the provider.
    """
    match outcome:
        case Blocked(code):
            return close_gate(connection, provider, reason=code, message_id=message_id)
        case Unreachable():
            return _count_failure(connection, provider)
        case Throttled():
            open_gate(connection, provider, age=age)
            halve_rate(connection, provider, message_id)
        case Accepted() | Deferred() | Rejected(is_answer=True):
            open_gate(connection, provider, age=age, accepted=isinstance(outcome, Accepted))
        case Rejected() | Unknown():
            pass
        case _:
            assert_never(outcome)
    return None


def _count_failure(connection: Connection, provider: str) -> Closing | None:
    parameters = {
        "provider": provider,
        "reason": "unreachable",
        "pause": FIRST_PAUSE,
        "limit": FAILURES_LIMIT,
    }
    with translated_errors():
        row = connection.execute(COUNT_FAILURE, parameters).fetchone()
    return Closing(others_pass=False) if row and row["closed"] else None
