"""Finished messages lose what they said and to whom; the rest of the row stays.

A redacted message is not retried, for nothing is left to send. Its recipients are one address under
`.invalid`, which no mail can reach.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from urllib.parse import quote
from uuid import UUID

from postlease.database import translated_errors

if TYPE_CHECKING:
    from datetime import timedelta

    from postlease.database import Connection

REDACTED_ADDRESS = "redacted@redacted.invalid"
"""What stands in place of recipients."""

REDACT: LiteralString = """-- outbox.redact
WITH old AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.priority = 0
      AND m.status IN ('sent', 'failed')
      AND m.finished_at IS NOT NULL
      AND m.redacted_at IS NULL
      AND m.finished_at < now() - %(age)s::interval
    ORDER BY m.finished_at
    LIMIT %(chunk)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE postlease.email_messages AS m
SET parameters = '{}', recipient_names = '{}', reply_to = NULL,
    to_addresses = ARRAY[%(nobody)s], cc_addresses = '{}', bcc_addresses = '{}',
    redacted_at = now()
FROM old
WHERE m.id = old.id
"""

LOCK_THEIRS: LiteralString = """-- outbox.lock_theirs
WITH page AS MATERIALIZED (
    SELECT m.id FROM postlease.email_messages AS m
    WHERE m.id > %(after)s
    ORDER BY m.id
    LIMIT %(page)s
), theirs AS MATERIALIZED (
    SELECT m.id, m.status
    FROM postlease.email_messages AS m
    JOIN page ON page.id = m.id
    WHERE EXISTS (
        SELECT FROM unnest(m.to_addresses || m.cc_addresses || m.bcc_addresses) AS a (address)
        WHERE lower(a.address COLLATE "C") = %(address)s)
       OR lower(m.reply_to COLLATE "C") ~ %(mention)s
    ORDER BY m.id
    FOR NO KEY UPDATE OF m
)
SELECT (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1) AS last,
       coalesce(array_agg(t.id), '{}') AS ids,
       count(*) FILTER (WHERE t.status = 'pending')::int AS cancelled,
       count(*) FILTER (WHERE t.status IN ('sent', 'failed'))::int AS redacted,
       count(*) FILTER (WHERE t.status = 'sending')::int AS sending
FROM theirs AS t
"""

# Behind the locks, as a statement of its own: the one that waited for them sees the rows as they
# were before, and a mail that was sent meanwhile would be none that it may change. Attachments are
# the person's too: what the message owned leaves the storage.
ERASE: LiteralString = """-- outbox.erase
WITH theirs AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s) AND m.status <> 'sending'
), noted AS (
    INSERT INTO postlease.attachment_deletions (storage_ref, version_id)
    SELECT a.storage_ref, a.version_id
    FROM postlease.email_attachments AS a
    JOIN theirs ON theirs.id = a.message_id
    WHERE a.owned
    RETURNING 1
), detached AS (
    DELETE FROM postlease.email_attachments AS a
    USING theirs
    WHERE a.message_id = theirs.id
), erased AS (
    UPDATE postlease.email_messages AS m
    SET status = CASE m.status WHEN 'pending' THEN 'failed' ELSE m.status END,
        failure_reason = CASE m.status WHEN 'pending' THEN 'cancelled' ELSE m.failure_reason END,
        finished_at = coalesce(m.finished_at, now()),
        parameters = '{}', recipient_names = '{}', reply_to = NULL,
        to_addresses = ARRAY[%(nobody)s], cc_addresses = '{}', bcc_addresses = '{}',
        idempotency_key = CASE
            WHEN lower(m.idempotency_key COLLATE "C") ~ %(spelling)s
            THEN 'erased:' || m.id
            ELSE m.idempotency_key END,
        cancel_scope = CASE WHEN lower(m.cancel_scope COLLATE "C") ~ %(spelling)s
            THEN NULL ELSE m.cancel_scope END,
        redacted_at = coalesce(m.redacted_at, now())
    FROM theirs
    WHERE m.id = theirs.id
)
SELECT count(*)::int AS objects FROM noted
"""


@dataclass(frozen=True, slots=True)
class Erased:
    """What one page held of a person. last: the last message looked at; None at the end.

    sending: on their way, and left alone. objects: noted for deletion.
    """

    last: UUID | None
    cancelled: int
    redacted: int
    sending: int
    objects: int


def mention(address: str) -> str:
    """The expression, for PostgreSQL and Python, of a text in lower case that names address.

    Not of one that names another which ends or begins like it.
    """
    return rf"(?<![a-z0-9!#$%&'*+/=?^_`{{|}}~.-]){re.escape(address)}(?![a-z0-9-]|\.[a-z0-9])"


def spelling(address: str) -> str:
    """The same of a name that a producer made of address, as it is or as in a URL."""
    return f"{re.escape(address)}|{re.escape(quote(address, safe='').lower())}"


def redact(connection: Connection, *, age: timedelta, chunk: int) -> int:
    """Redact up to chunk auth mails that finished longer than age ago; answers how many.

    Does not commit by itself.
    """
    parameters = {"age": age, "chunk": chunk, "nobody": REDACTED_ADDRESS}
    with translated_errors():
        return connection.execute(REDACT, parameters).rowcount


def erase(connection: Connection, address: str, *, after: UUID | None, page: int) -> Erased:
    """Redact whatever names address among the next page messages; what is pending is cancelled.

    address: in its canonical form, which is lower case. Messages of several recipients are redacted
    as a whole. Call it in a transaction; it does not commit.
    """
    sought = {
        "address": address,
        "mention": mention(address),
        "after": after or UUID(int=0),
        "page": page,
    }
    with translated_errors():
        found = connection.execute(LOCK_THEIRS, sought).fetchone()
        if found is None:  # an aggregate answers one row
            raise AssertionError(LOCK_THEIRS)
        theirs = {
            "ids": found.pop("ids"),
            "spelling": spelling(address),
            "nobody": REDACTED_ADDRESS,
        }
        noted = connection.execute(ERASE, theirs).fetchone()
    return Erased(**found, objects=noted["objects"] if noted else 0)
