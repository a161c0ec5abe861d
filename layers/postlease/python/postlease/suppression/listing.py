"""What an operator sees of the list and changes in it. Entries that ended count for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import datetime

    from postlease.database import Connection

Reason: TypeAlias = Literal["bounce", "complaint", "manual"]

_ENTRY: LiteralString = "s.address_digest, s.reason, s.created_at, s.expires_at"

_PAGE: LiteralString = """-- suppression.page
SELECT """
PAGE: LiteralString = (
    _PAGE
    + _ENTRY
    + """
FROM postlease.suppressions AS s
WHERE (s.address_digest, s.reason) > (%(digest)s, %(reason)s)
  AND (%(wanted)s::text IS NULL OR s.reason = %(wanted)s)
  AND (s.expires_at IS NULL OR s.expires_at > now())
ORDER BY s.address_digest, s.reason
LIMIT %(limit)s
"""
)

_FIND: LiteralString = """-- suppression.find
SELECT """
FIND: LiteralString = (
    _FIND
    + _ENTRY
    + """
FROM postlease.suppressions AS s
WHERE s.address_digest = %(digest)s
  AND (s.expires_at IS NULL OR s.expires_at > now())
ORDER BY s.reason
"""
)

# An operator's word replaces the one before, longer or shorter; what events noted it leaves alone.
_PUT: LiteralString = """-- suppression.put
INSERT INTO postlease.suppressions AS s (address_digest, reason, expires_at)
SELECT %(digest)s, 'manual', %(expires_at)s::timestamptz
WHERE %(expires_at)s::timestamptz IS NULL OR %(expires_at)s::timestamptz > now()
ON CONFLICT (address_digest, reason) DO UPDATE
SET expires_at = EXCLUDED.expires_at
RETURNING """
PUT: LiteralString = _PUT + _ENTRY

DELETE: LiteralString = """-- suppression.delete
DELETE FROM postlease.suppressions AS s
WHERE s.address_digest = %(digest)s
  AND (%(reason)s::text IS NULL OR s.reason = %(reason)s)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. expires_at is None for one that does not end."""

    address_digest: bytes
    reason: Reason
    created_at: datetime
    expires_at: datetime | None


def page(
    connection: Connection,
    *,
    after: tuple[bytes, str] | None,
    reason: Reason | None,
    limit: int,
) -> list[Entry]:
    """Up to limit entries behind after (a digest and a reason), in the order of both."""
    digest, last = after or (b"", "")
    parameters = {"digest": digest, "reason": last, "wanted": reason, "limit": limit}
    with translated_errors():
        return [Entry(**row) for row in connection.execute(PAGE, parameters)]


def find(connection: Connection, digest: bytes) -> list[Entry]:
    """All entries of one address."""
    with translated_errors():
        return [Entry(**row) for row in connection.execute(FIND, {"digest": digest})]


def put(connection: Connection, digest: bytes, *, expires_at: datetime | None) -> Entry | None:
    """An operator's entry for this address, with this end; None if that time is over."""
    parameters = {"digest": digest, "expires_at": expires_at}
    with translated_errors():
        row = connection.execute(PUT, parameters).fetchone()
    return Entry(**row) if row else None


def delete(connection: Connection, digest: bytes, *, reason: Reason | None) -> int:
    """Take an address off, for one reason or for all; how many entries that were."""
    with translated_errors():
        return connection.execute(DELETE, {"digest": digest, "reason": reason}).rowcount
