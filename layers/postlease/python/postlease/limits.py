"""Limits that all processes share: fixed windows in `rate_limits`, one row for each.

A cooldown remembers the message that requests inside it are answered with; a counted window says
how often something happened. Rows are locked after an idempotency key and before a user, several of
them in the order of their digests. What a limit means to whoever meets it is for `accounts`.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, LiteralString

from postlease.tokens import keyed_digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.database import Connection

# A window of no length would break rate_limits_window; this one is over when the next request asks.
TAKE: LiteralString = """-- limits.take
INSERT INTO postlease.rate_limits AS held (limit_digest, window_started_at, window_ends_at, used)
VALUES (%(digest)s, now(), now() + greatest(%(window)s, interval '1 microsecond'), 1)
ON CONFLICT (limit_digest) DO UPDATE SET
    window_started_at = CASE WHEN held.window_ends_at > now()
        THEN held.window_started_at ELSE excluded.window_started_at END,
    window_ends_at = CASE WHEN held.window_ends_at > now()
        THEN held.window_ends_at ELSE excluded.window_ends_at END,
    used = CASE WHEN held.window_ends_at > now() THEN held.used + 1 ELSE 1 END,
    message_id = CASE WHEN held.window_ends_at > now() THEN held.message_id END
RETURNING message_id
"""

# Without a message the row is written all the same, and stays as it is.
NOTE: LiteralString = """-- limits.note
UPDATE postlease.rate_limits AS held SET
    message_id = coalesce(%(message_id)s::uuid, held.message_id),
    window_started_at = CASE WHEN %(message_id)s::uuid IS NULL
        THEN held.window_started_at ELSE now() END,
    window_ends_at = CASE WHEN %(message_id)s::uuid IS NULL
        THEN held.window_ends_at ELSE now() + greatest(%(window)s, interval '1 microsecond') END
WHERE held.limit_digest = %(digest)s
"""

SPENT: LiteralString = """-- limits.spent
SELECT held.message_id FROM postlease.rate_limits AS held
JOIN unnest(%(digests)s::bytea[], %(most)s::integer[]) AS w (digest, most)
    ON w.digest = held.limit_digest
WHERE held.window_ends_at > now() AND held.used >= w.most
ORDER BY held.message_id DESC NULLS LAST
LIMIT 1
"""

# A window begins with the first that counts. What counts for nothing writes the same rows.
COUNT: LiteralString = """-- limits.count
INSERT INTO postlease.rate_limits AS held
    (limit_digest, window_started_at, window_ends_at, used, message_id)
SELECT w.digest, now(), now() + w.length, %(times)s, %(message_id)s::uuid
FROM unnest(%(digests)s::bytea[], %(lengths)s::interval[]) AS w (digest, length)
ORDER BY w.digest
ON CONFLICT (limit_digest) DO UPDATE SET
    window_started_at = CASE WHEN held.window_ends_at > now() AND held.used > 0
        THEN held.window_started_at ELSE excluded.window_started_at END,
    window_ends_at = CASE WHEN held.window_ends_at > now() AND held.used > 0
        THEN held.window_ends_at ELSE excluded.window_ends_at END,
    used = CASE WHEN held.window_ends_at > now() THEN held.used ELSE 0 END + excluded.used,
    message_id = coalesce(excluded.message_id, held.message_id)
RETURNING held.limit_digest, held.used,
    extract(epoch FROM held.window_ends_at - now())::float8 AS seconds_left
"""

CLEAR: LiteralString = """-- limits.clear
DELETE FROM postlease.rate_limits WHERE limit_digest = %(digest)s
"""


@dataclass(frozen=True, slots=True)
class Window:
    """A counted window: its key, its length, and how often something may happen within it."""

    digest: bytes = field(repr=False)
    length: timedelta
    most: int


def mailbox_digest(
    pepper: bytes, flow: str, canonical_address: str, *, use: str = "cooldown"
) -> bytes:
    """The key of one mailbox in one flow; variants of a sub-address count together."""
    local, _, domain = canonical_address.rpartition("@")
    mailbox = f"{local.partition('+')[0] or local}@{domain}"
    return keyed_digest(pepper, use.encode(), flow.encode(), mailbox.encode())


def address_digest(pepper: bytes, use: str, canonical_address: str) -> bytes:
    """The key of one address; its sub-addresses are others, and so may be somebody else's."""
    return keyed_digest(pepper, b"address", use.encode(), canonical_address.encode())


def client_digest(pepper: bytes, client: str, *, use: str) -> bytes:
    """The key of one client by its IP address; one of IPv6 is all of its /64."""
    return keyed_digest(pepper, b"client", use.encode(), _network(client).encode())


def _network(client: str) -> str:
    """The part of an address that one client keeps; a text that is no address stands as it is."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def take(connection: Connection, digest: bytes, *, window: timedelta) -> UUID | None:
    """Lock the cooldown's row until the transaction ends, and open a window if none is running.

    Answers the message noted inside the running window, or None: then the caller may act, and
    notes the message that came of it. Both ways the row is written once. Does not commit.
    """
    [row] = connection.execute(TAKE, {"digest": digest, "window": window}).fetchall()
    message_id: UUID | None = row["message_id"]
    return message_id


def note(
    connection: Connection, digest: bytes, message_id: UUID | None, *, window: timedelta
) -> None:
    """Begin the window, and remember the message that requests inside it are answered with.

    None: no message came of it. The row is written once either way.
    """
    connection.execute(NOTE, {"digest": digest, "message_id": message_id, "window": window})


def clear(connection: Connection, digest: bytes) -> None:
    """End the cooldown: its flow was completed, so the next request starts a new one.

    One that another transaction begins at this moment is waited for, and ends too: a DELETE alone
    does not see its row.
    """
    take(connection, digest, window=timedelta(0))
    connection.execute(CLEAR, {"digest": digest})


def spent(connection: Connection, windows: Sequence[Window]) -> UUID | None:
    """The last message counted in a window that is used up, or None if there is none.

    Only a caller that holds a lock on what the windows are about may act on the answer.
    """
    if not windows:
        return None
    row = connection.execute(
        SPENT, {"digests": [w.digest for w in windows], "most": [w.most for w in windows]}
    ).fetchone()
    return row["message_id"] if row else None


def count(
    connection: Connection,
    windows: Sequence[Window],
    *,
    message_id: UUID | None = None,
    times: Literal[0, 1] = 1,
) -> int:
    """Count once in each of the windows, by one statement; message_id is what it was.

    times 0 counts nothing, and costs the same. Answers 0, or in how many whole seconds the last of
    the overrun windows ends. Does not commit.
    """
    if not windows:
        return 0
    rows = connection.execute(
        COUNT,
        {
            "digests": [window.digest for window in windows],
            "lengths": [window.length for window in windows],
            "message_id": message_id,
            "times": times,
        },
    ).fetchall()
    most = {window.digest: window.most for window in windows}
    overrun = [row for row in rows if row["used"] > most[bytes(row["limit_digest"])]]
    return max((math.ceil(row["seconds_left"]) for row in overrun), default=0)
