"""How fast the provider is called: slots for recipients, dealt out to all workers in one row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

SHARE = 0.95
"""What is used of a rate: the provider counts by its own clock, and a call is never on time."""

BURST = timedelta(seconds=5)
"""Refusals for speed that come so close together are about the same speed."""

# A slot lies no further back than the burst that may follow a silence: a tenth of a second's rate,
# the first of it being the call itself. After a halving the rate grows by a tenth for each minute.
RESERVE: LiteralString = """-- gate.reserve
WITH held AS MATERIALIZED (
    SELECT g.provider, g.next_slot_at, g.rate_per_second AS old_rate,
           least(g.limit_per_second, g.rate_per_second * power(1.1, least(100, greatest(0,
               floor(extract(epoch FROM now() - g.rate_changed_at) / 60)))::float8)) AS rate
    FROM postlease.provider_gates AS g
    WHERE g.provider = %(provider)s AND g.rate_per_second IS NOT NULL
    FOR NO KEY UPDATE
), slot AS MATERIALIZED (
    SELECT h.provider, h.old_rate, h.rate,
           greatest(h.next_slot_at, now() - make_interval(
               secs => (greatest(h.rate / 10, 1) - 1) / h.rate)) AS at,
           1 / (h.rate * %(share)s) AS spacing
    FROM held AS h
), moved AS (
    UPDATE postlease.provider_gates AS g
    SET next_slot_at = s.at + make_interval(secs => %(recipients)s * s.spacing),
        rate_per_second = s.rate,
        rate_changed_at = CASE WHEN s.rate > s.old_rate THEN now() ELSE g.rate_changed_at END,
        updated_at = now()
    FROM slot AS s
    WHERE g.provider = s.provider AND s.at <= now() + %(within)s::interval
    RETURNING g.provider
)
SELECT EXISTS (SELECT FROM moved) AS taken,
       greatest(extract(epoch FROM s.at - now()), 0)::float8 AS wait, s.spacing
FROM slot AS s
"""

HALVE_RATE: LiteralString = """-- gate.halve_rate
UPDATE postlease.provider_gates AS g
SET rate_per_second = greatest(g.rate_per_second / 2, least(g.limit_per_second, 1)),
    rate_changed_at = now(),
    throttled_by = %(message_id)s,
    updated_at = now()
WHERE g.provider = %(provider)s
  AND g.rate_per_second IS NOT NULL
  -- One message that is refused whenever it comes says nothing of the speed of the others.
  AND g.throttled_by IS DISTINCT FROM %(message_id)s
  AND g.rate_changed_at <= now() - %(burst)s::interval
"""

# A rate that was halved stays so; one that was at the old limit goes to the new one.
SET_LIMIT: LiteralString = """-- gate.set_limit
INSERT INTO postlease.provider_gates AS g (provider, limit_per_second, rate_per_second)
VALUES (%(provider)s, %(limit)s, %(limit)s)
ON CONFLICT (provider) DO UPDATE
SET limit_per_second = EXCLUDED.limit_per_second,
    rate_per_second = CASE
        WHEN g.rate_per_second < g.limit_per_second AND EXCLUDED.limit_per_second IS NOT NULL
        THEN least(g.rate_per_second, EXCLUDED.limit_per_second)
        ELSE EXCLUDED.limit_per_second END,
    updated_at = now()
WHERE g.limit_per_second IS DISTINCT FROM EXCLUDED.limit_per_second
"""


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the first recipient's slot lies, in seconds from the statement, and the next ones'.

    taken is False where the first slot lay too far ahead: then nothing was reserved.
    """

    taken: bool
    wait: float
    spacing: float


def reserve(
    connection: Connection, provider: str, *, recipients: int, within: timedelta
) -> Slots | None:
    """Take slots for recipients, the first at most within from now, and commit.

    None means that no rate is known, so nothing is paced. Slots that are not used are lost.
    """
    parameters = {
        "provider": provider,
        "recipients": recipients,
        "within": within,
        "share": SHARE,
    }
    with translated_errors():
        row = connection.execute(RESERVE, parameters).fetchone()
    return Slots(**row) if row else None


def set_limit(connection: Connection, provider: str, per_second: float | None) -> None:
    """Hold everybody to per_second recipients a second, or to nothing, and commit."""
    with translated_errors():
        connection.execute(SET_LIMIT, {"provider": provider, "limit": per_second})


def halve_rate(connection: Connection, provider: str, message_id: UUID) -> None:
    """Use half of the rate, or one a second, and commit.

    Once for all refusals of one burst, and not twice in a row for the same message.
    """
    parameters = {"provider": provider, "burst": BURST, "message_id": message_id}
    with translated_errors():
        connection.execute(HALVE_RATE, parameters)
