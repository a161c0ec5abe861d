"""Idempotency-Key (IETF httpapi draft): one effect for any number of equal requests.

The key's row is inserted first, in the effect's own transaction, so that the answer commits with
the effect or not at all: there is nothing to clean up after a crash. Only keyed digests are stored.
What a key covers (route, caller, address) is for the caller to say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import errors as refusals
from psycopg.types.json import Jsonb

from postlease.errors import ConflictError, MalformedInputError

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.database import Connection, Row

HEADER = "Idempotency-Key"

_BARE = re.compile(r"[!#-~][!-~]{0,254}")
# A structured field's string (RFC 8941, 3.3.3): only the quote and the backslash are escaped.
_QUOTED = re.compile(r'"((?:[!#-\[\]-~]|\\["\\])+)"')
_ESCAPED = re.compile(r"\\(.)")
_LONGEST = 255

BEGIN: LiteralString = """-- idempotency.begin
INSERT INTO postlease.idempotency_keys AS held (key_digest, request_digest, expires_at)
VALUES (%(key)s, %(request)s, now() + %(lifetime)s)
ON CONFLICT (key_digest) DO UPDATE
    SET request_digest = excluded.request_digest, status_code = NULL, response = NULL,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    WHERE held.expires_at <= now()
"""

STORED: LiteralString = """-- idempotency.stored
SELECT request_digest, status_code, response FROM postlease.idempotency_keys
WHERE key_digest = %(key)s
"""

ANSWERED: LiteralString = """-- idempotency.answered
SELECT request_digest, status_code, response FROM postlease.idempotency_keys
WHERE key_digest = %(key)s AND status_code IS NOT NULL AND expires_at > now()
"""

FINISH: LiteralString = """-- idempotency.finish
UPDATE postlease.idempotency_keys SET status_code = %(status_code)s, response = %(response)s
WHERE key_digest = %(key)s AND status_code IS NULL
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One request under its key: key_digest covers scope and key, request_digest the content."""

    key_digest: bytes = field(repr=False)
    request_digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What the first of the equal requests was answered with."""

    status_code: int
    response: dict[str, Any] = field(repr=False)


def parse(header: str) -> str:
    """The key in the header's value, bare or quoted: 1 to 255 visible ASCII characters.

    `"abc"` and `abc` are the same key. MalformedInputError names the header for anything else.
    """
    text = header.strip(" \t")
    if quoted := _QUOTED.fullmatch(text):
        text = _ESCAPED.sub(r"\1", quoted[1])
    elif not _BARE.fullmatch(text):
        raise MalformedInputError(HEADER, "must be 1 to 255 visible ASCII characters")
    if len(text) > _LONGEST:
        raise MalformedInputError(HEADER, "must be 1 to 255 visible ASCII characters")
    return text


def canonical(request: dict[str, Any]) -> bytes:
    """A request's content in one spelling, whatever its members' order and whitespace."""
    return json.dumps(request, sort_keys=True, separators=(",", ":")).encode()


def begin(connection: Connection, key: Key, *, lifetime: timedelta) -> StoredAnswer | None:
    """Take the key for this transaction, or answer what its first request was answered with.

    None: the key is ours until the transaction ends, and `finish` must follow before it commits; an
    expired key counts as never used. Waits for a first request still running as long as the
    transaction's lock_timeout says. Raises ConflictError: `idempotency-key-in-progress` beyond that
    wait, `idempotency-key-reused` when the first request's content was another.
    """
    digests = {"key": key.key_digest, "request": key.request_digest, "lifetime": lifetime}
    try:
        taken = connection.execute(BEGIN, digests).rowcount == 1
    except refusals.LockNotAvailable:
        raise _in_progress() from None
    if taken:
        return None
    row = connection.execute(STORED, digests).fetchone()
    if row is None or row["status_code"] is None:
        # Purged between the two statements: the next try finds the key free.
        raise _in_progress()
    return _stored(row, key)


def answered(connection: Connection, key: Key) -> StoredAnswer | None:
    """What the key's first request was answered with, if it was; takes nothing, waits for nobody.

    For whoever must look around before `begin`, and would find another world than the first did.
    """
    row = connection.execute(ANSWERED, {"key": key.key_digest}).fetchone()
    return _stored(row, key) if row else None


def finish(connection: Connection, key: Key, *, status_code: int, response: dict[str, Any]) -> None:
    """Store the answer that equal requests get from now on; commits with the effect."""
    connection.execute(
        FINISH,
        {"key": key.key_digest, "status_code": status_code, "response": Jsonb(response)},
    )


def _stored(row: Row, key: Key) -> StoredAnswer:
    if row["request_digest"] != key.request_digest:
        raise ConflictError(
            "idempotency-key-reused", "this Idempotency-Key was used for another request"
        )
    return StoredAnswer(row["status_code"], row["response"])


def _in_progress() -> ConflictError:
    return ConflictError(
        "idempotency-key-in-progress", "a request with this Idempotency-Key is still running"
    )
