"""An operator's word: a pause that only an operator ends, an opening at once, and who said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors
from postlease.gate.closing import FIRST_PAUSE

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import GateWord

OPERATOR = "operator"
"""Why a paused gate is closed."""

# A probe that is never due is no number of a time, so it is not read.
READ: LiteralString = """-- gate.read
SELECT g.provider,
       CASE WHEN g.is_paused THEN 'paused' WHEN g.closed_at IS NOT NULL THEN 'closed'
            ELSE 'open' END AS state,
       g.close_reason, g.closed_at, g.closed_by,
       CASE WHEN NOT g.is_paused THEN g.probe_at END AS probe_at,
       g.failures_in_a_row, g.limit_per_second,
       g.rate_per_second, g.accepted_at, g.ruled_at, g.ruled_by, g.ruled_because
FROM postlease.provider_gates AS g
"""

PAUSE: LiteralString = """-- gate.pause
INSERT INTO postlease.provider_gates AS g (
    provider, is_paused, closed_at, close_reason, probe_at, ruled_at, ruled_by, ruled_because)
VALUES (%(provider)s, true, now(), %(operator)s, 'infinity', now(), %(by)s, %(because)s)
ON CONFLICT (provider) DO UPDATE
SET is_paused = true,
    -- Anew: the answer to a call from before says nothing of the pause.
    closed_at = now(),
    close_reason = EXCLUDED.close_reason,
    closed_by = NULL,
    probe_at = EXCLUDED.probe_at,
    ruled_at = EXCLUDED.ruled_at,
    ruled_by = EXCLUDED.ruled_by,
    ruled_because = EXCLUDED.ruled_because,
    updated_at = now()
"""

RELEASE: LiteralString = """-- gate.release
INSERT INTO postlease.provider_gates AS g (provider, ruled_at, ruled_by, ruled_because)
VALUES (%(provider)s, now(), %(by)s, %(because)s)
ON CONFLICT (provider) DO UPDATE
SET is_paused = false,
    closed_at = NULL,
    close_reason = NULL,
    closed_by = NULL,
    probe_at = NULL,
    pause = %(pause)s::interval,
    failures_in_a_row = 0,
    ruled_at = EXCLUDED.ruled_at,
    ruled_by = EXCLUDED.ruled_by,
    ruled_because = EXCLUDED.ruled_because,
    updated_at = now()
"""


@dataclass(frozen=True, slots=True)
class GateReport:
    """A gate as an operator sees it. probe_at is when the next probe may go; None: none will.

    ruled_* is an operator's last word, whichever. Rates are recipients a second, None where nothing
    is paced.
    """

    provider: str
    state: GateWord = "open"
    close_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: UUID | None = None
    probe_at: datetime | None = None
    failures_in_a_row: int = 0
    limit_per_second: float | None = None
    rate_per_second: float | None = None
    accepted_at: datetime | None = None
    ruled_at: datetime | None = None
    ruled_by: str | None = None
    ruled_because: str | None = None


def read(connection: Connection) -> list[GateReport]:
    """Every gate that anybody has noted anything about, without a lock."""
    with translated_errors():
        return [GateReport(**row) for row in connection.execute(READ)]


def pause(connection: Connection, provider: str, *, by: str, because: str) -> None:
    """Let nobody pass, no probe either, until `release`; the last of several words stands.

    because has 1 to 200 characters. What has left is not called back.
    """
    parameters = {"provider": provider, "operator": OPERATOR, "by": by, "because": because}
    with translated_errors():
        connection.execute(PAUSE, parameters)


def release(connection: Connection, provider: str, *, by: str, because: str) -> None:
    """Let everybody pass, whoever closed the gate, and forget failures.

    If the provider still refuses, its next answer closes the gate again.
    """
    parameters = {"provider": provider, "pause": FIRST_PAUSE, "by": by, "because": because}
    with translated_errors():
        connection.execute(RELEASE, parameters)
