"""How the list grows by the provider's events, and how an address is looked up in it.

    hard bounce     suppressed at once, for 180 days
    soft bounces    the fifth within 30 days suppresses for 30 days; a delivery forgets them
    complaint       suppressed for good, but for auth mail
    manual          an operator's entry; nothing here makes or changes one

Of two entries of one reason the longer stays; times are the event's own. So neither order nor
repetition of the events matters.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, LiteralString

from postlease import tokens
from postlease.database import translated_errors

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from postlease.database import Connection

HARD_LIFETIME = timedelta(days=180)
SOFT_LIFETIME = timedelta(days=30)
SOFT_LIMIT = 5
SOFT_WINDOW = timedelta(days=30)

# One that has ended is shorter than any that begins; one without an end is shorter than none.
_KEEP: LiteralString = """
ON CONFLICT (address_digest, reason) DO UPDATE
SET expires_at = EXCLUDED.expires_at
WHERE coalesce(EXCLUDED.expires_at, 'infinity') > s.expires_at
RETURNING s.address_digest
"""

_SUPPRESS: LiteralString = """-- suppression.suppress
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT d, %(reason)s, least(%(at)s::timestamptz, now()) + %(lifetime)s::interval
FROM (SELECT DISTINCT unnest(%(digests)s::bytea[])) AS given (d)
WHERE %(lifetime)s::interval IS NULL
   OR least(%(at)s::timestamptz, now()) + %(lifetime)s::interval > now()
ORDER BY d"""
SUPPRESS: LiteralString = _SUPPRESS + _KEEP

NOTE_SOFT: LiteralString = """-- suppression.note_soft
INSERT INTO postlease.bounces (address_digest, event_digest, happened_at)
SELECT d, %(event)s, least(%(at)s::timestamptz, now())
FROM (SELECT DISTINCT unnest(%(digests)s::bytea[])) AS given (d)
ORDER BY d
ON CONFLICT DO NOTHING
"""

# A statement of its own, behind the commit of the note: of two bounces at once, the second one to
# commit counts both.
_SUPPRESS_OFTEN: LiteralString = """-- suppression.suppress_often_bounced
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT b.address_digest, 'bounce', max(b.happened_at) + %(lifetime)s::interval
FROM postlease.bounces AS b
WHERE b.address_digest = ANY (%(digests)s::bytea[])
  AND b.happened_at > now() - %(window)s::interval
GROUP BY b.address_digest
HAVING count(*) >= %(limit)s
ORDER BY b.address_digest"""
SUPPRESS_OFTEN: LiteralString = _SUPPRESS_OFTEN + _KEEP

FORGIVE: LiteralString = """-- suppression.forgive
WITH forgiven AS MATERIALIZED (
    SELECT b.address_digest, b.event_digest
    FROM postlease.bounces AS b
    WHERE b.address_digest = ANY (%(digests)s::bytea[])
      AND b.happened_at <= least(%(at)s::timestamptz, now())
    ORDER BY b.address_digest, b.event_digest
    FOR UPDATE
)
DELETE FROM postlease.bounces AS b USING forgiven AS f
WHERE b.address_digest = f.address_digest AND b.event_digest = f.event_digest
"""

PURGE: LiteralString = """-- suppression.purge
WITH bounces AS (
    DELETE FROM postlease.bounces AS b
    WHERE b.ctid = ANY (ARRAY(
        SELECT old.ctid FROM postlease.bounces AS old
        WHERE old.happened_at <= now() - %(window)s::interval
        LIMIT %(chunk)s
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
), suppressions AS (
    DELETE FROM postlease.suppressions AS s
    WHERE s.ctid = ANY (ARRAY(
        SELECT old.ctid FROM postlease.suppressions AS old
        WHERE old.expires_at <= now()
        LIMIT %(chunk)s
        FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT (SELECT count(*) FROM bounces) + (SELECT count(*) FROM suppressions) AS gone
"""


def digest(pepper: bytes, address: str) -> bytes:
    """The list's key for a stored address: 32 bytes, the same for every spelling of case."""
    return tokens.keyed_digest(pepper, b"suppression", address.lower().encode())


def bounce_digest(pepper: bytes, provider_message_id: str) -> bytes:
    """What one message's soft bounces are counted once by."""
    return tokens.keyed_digest(pepper, b"soft bounce", provider_message_id.encode())


def note_hard(connection: Connection, digests: Collection[bytes], *, at: datetime | None) -> int:
    """Suppress addresses that do not exist and commit; how many entries that changed.

    at is when it happened, or None for now; a moment to come counts as now.
    """
    return _suppress(connection, digests, "bounce", at=at, lifetime=HARD_LIFETIME)


def note_complaint(connection: Connection, digests: Collection[bytes]) -> int:
    """Suppress whoever does not want our mail and commit; how many entries that changed."""
    return _suppress(connection, digests, "complaint", at=None, lifetime=None)


def note_soft(
    connection: Connection, digests: Collection[bytes], *, event: bytes, at: datetime | None
) -> int:
    """Count a bounce that may pass, once for each event, and suppress whom that is too many for.

    Two commits, safe to repeat. Answers how many entries of the list changed.
    """
    parameters = {
        "digests": list(digests),
        "event": event,
        "at": at,
        "window": SOFT_WINDOW,
        "limit": SOFT_LIMIT,
        "lifetime": SOFT_LIFETIME,
    }
    with translated_errors():
        connection.execute(NOTE_SOFT, parameters)
        return len(connection.execute(SUPPRESS_OFTEN, parameters).fetchall())


def note_delivery(
    connection: Connection, digests: Collection[bytes], *, at: datetime | None
) -> None:
    """Forget the soft bounces before a delivery and commit; an entry of the list stays."""
    with translated_errors():
        connection.execute(FORGIVE, {"digests": list(digests), "at": at})


def purge(connection: Connection, *, chunk: int) -> int:
    """Delete up to chunk bounces that no longer count and as many entries that ended; how many."""
    with translated_errors():
        row = connection.execute(PURGE, {"window": SOFT_WINDOW, "chunk": chunk}).fetchone()
    return int(row["gone"]) if row else 0


def _suppress(
    connection: Connection,
    digests: Collection[bytes],
    reason: str,
    *,
    at: datetime | None,
    lifetime: timedelta | None,
) -> int:
    parameters = {"digests": list(digests), "reason": reason, "at": at, "lifetime": lifetime}
    with translated_errors():
        return len(connection.execute(SUPPRESS, parameters).fetchall())
