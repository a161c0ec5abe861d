"""Limits that all processes share: fixed windows in `rate_limits`, one row for each.

Here is the cooldown of one mailbox. An answer is the same inside and outside of it: a limit that
showed would tell who has an account. Its row is locked after an idempotency key and before a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.tokens import keyed_digest

if TYPE_CHECKING:
    from datetime import timedelta
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

NOTE: LiteralString = """-- limits.note
UPDATE postlease.rate_limits SET message_id = %(message_id)s WHERE limit_digest = %(digest)s
"""

CLEAR: LiteralString = """-- limits.clear
DELETE FROM postlease.rate_limits WHERE limit_digest = %(digest)s
"""


def mailbox_digest(pepper: bytes, flow: str, canonical_address: str) -> bytes:
    """The key of one mailbox's cooldown in one flow; variants of a sub-address count together."""
    local, _, domain = canonical_address.rpartition("@")
    mailbox = f"{local.partition('+')[0] or local}@{domain}"
    return keyed_digest(pepper, b"cooldown", flow.encode(), mailbox.encode())


def take(connection: Connection, digest: bytes, *, window: timedelta) -> UUID | None:
    """Lock the cooldown's row until the transaction ends, and open a window if none is running.

    Answers the message noted inside the running window, or None: then the caller may act, and
    notes the message that came of it. Both ways the row is written once. Does not commit.
    """
    [row] = connection.execute(TAKE, {"digest": digest, "window": window}).fetchall()
    message_id: UUID | None = row["message_id"]
    return message_id


def note(connection: Connection, digest: bytes, message_id: UUID | None) -> None:
    """Remember the message that requests inside this window are answered with."""
    connection.execute(NOTE, {"digest": digest, "message_id": message_id})


def clear(connection: Connection, digest: bytes) -> None:
    """End the cooldown: its flow was completed, so the next request starts a new one."""
    connection.execute(CLEAR, {"digest": digest})
