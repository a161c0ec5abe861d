"""What was used up or is over: tokens, idempotency keys, rate windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from postlease.database import Connection

# After its messages, whose links it stands for; whoever clicks within the month is told why not.
PURGE_TOKENS: LiteralString = """-- retention.purge_tokens
DELETE FROM postlease.verification_tokens AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.verification_tokens AS old
    WHERE old.expires_at < now() - interval '30 days'
      AND NOT EXISTS (SELECT FROM postlease.email_messages AS m WHERE m.token_id = old.id)
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))
"""

PURGE_KEYS: LiteralString = """-- retention.purge_keys
DELETE FROM postlease.idempotency_keys AS k
WHERE k.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.idempotency_keys AS old
    WHERE old.expires_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))
"""

PURGE_WINDOWS: LiteralString = """-- retention.purge_windows
DELETE FROM postlease.rate_limits AS r
WHERE r.ctid = ANY (ARRAY(
    SELECT old.ctid FROM postlease.rate_limits AS old
    WHERE old.window_ends_at < now()
    LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED))
"""


def purge_tokens(connection: Connection, *, chunk: int) -> int:
    """Delete up to chunk tokens that expired a month ago and that no message carries."""
    return _delete(connection, PURGE_TOKENS, chunk)


def purge_keys(connection: Connection, *, chunk: int) -> int:
    """Delete up to chunk idempotency keys whose time is over."""
    return _delete(connection, PURGE_KEYS, chunk)


def purge_windows(connection: Connection, *, chunk: int) -> int:
    """Delete up to chunk rate windows that ended."""
    return _delete(connection, PURGE_WINDOWS, chunk)


def _delete(connection: Connection, statement: LiteralString, chunk: int) -> int:
    with translated_errors():
        return connection.execute(statement, {"chunk": chunk}).rowcount
