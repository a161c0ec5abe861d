"""Messages are born here, in the caller's transaction, and replaced here by newer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.types.json import Jsonb

from postlease.database import translated_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import DeliveryPolicy

ENQUEUE: LiteralString = """-- outbox.enqueue
SELECT postlease.enqueue_email(
    template => %(template)s, to_addresses => %(to)s, parameters => %(parameters)s,
    locale => %(locale)s, priority => %(priority)s, delivery => %(delivery)s,
    idempotency_key => %(idempotency_key)s) AS id
"""

ENQUEUE_AUTH: LiteralString = """-- outbox.enqueue_auth
SELECT postlease.enqueue_auth_email(
    template => %(template)s, user_id => %(user_id)s, token_id => %(token_id)s,
    locale => %(locale)s, lifetime => %(lifetime)s) AS id
"""

SUPERSEDE: LiteralString = """-- outbox.supersede
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.token_id = ANY (%(token_ids)s::uuid[])
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id
"""


# The same work as SUPERSEDE's on a message that it knows by its id.
REHEARSE: LiteralString = """-- outbox.rehearse_supersede
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s::uuid[])
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id
"""

# A note carries no token: whose account it is about, its scope tells.
SUPERSEDE_NOTES: LiteralString = """-- outbox.supersede_notes
WITH older AS MATERIALIZED (
    SELECT m.id
    FROM postlease.email_messages AS m
    WHERE m.producer = session_user
      AND m.cancel_scope = 'account_exists:' || %(user_id)s::text
      AND m.finished_at IS NULL
      AND m.status = 'pending'
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = 'failed', failure_reason = 'superseded', finished_at = now()
FROM older
WHERE m.id = older.id
RETURNING m.id
"""


def enqueue(
    connection: Connection,
    *,
    template: str,
    to: Sequence[str],
    parameters: Mapping[str, Any],
    locale: str = "en",
    priority: int = 50,
    delivery: DeliveryPolicy = "at_least_once",
    idempotency_key: str | None = None,
) -> UUID:
    """Ask for an email in the caller's transaction; does not commit.

    Raises DatabaseError with the constraint's name for what the schema refuses.
    """
    arguments = {
        "template": template,
        "to": list(to),
        "parameters": Jsonb(dict(parameters)),
        "locale": locale,
        "priority": priority,
        "delivery": delivery,
        "idempotency_key": idempotency_key,
    }
    with translated_errors():
        return _only_id(connection, ENQUEUE, arguments)


def enqueue_auth(
    connection: Connection,
    *,
    template: str,
    user_id: UUID,
    token_id: UUID | None = None,
    locale: str | None = None,
    lifetime: timedelta | None = None,
) -> UUID:
    """Ask for auth mail to the user's own address in the caller's transaction; does not commit.

    It is good for as long as its token, or for lifetime if it carries none.
    """
    arguments = {
        "template": template,
        "user_id": user_id,
        "token_id": token_id,
        "locale": locale,
        "lifetime": lifetime,
    }
    with translated_errors():
        return _only_id(connection, ENQUEUE_AUTH, arguments)


def supersede(connection: Connection, token_ids: Sequence[UUID]) -> int:
    """End the pending messages that carry these tokens; does not commit. Answers how many.

    One that is being sent is left to the dispatch check, which sees the token's state.
    """
    with translated_errors():
        return connection.execute(SUPERSEDE, {"token_ids": list(token_ids)}).rowcount


def rehearse_supersede(connection: Connection, message_ids: Sequence[UUID]) -> int:
    """Do to pending messages what `supersede` does; the caller undoes it. Answers how many.

    For whoever must not be told by the time of an answer that there was nothing to supersede.
    """
    with translated_errors():
        return connection.execute(REHEARSE, {"ids": list(message_ids)}).rowcount


def supersede_notes(connection: Connection, user_id: UUID) -> int:
    """End the pending notes that this account exists; does not commit. Answers how many.

    One that is being sent is left to the dispatch check.
    """
    with translated_errors():
        return connection.execute(SUPERSEDE_NOTES, {"user_id": user_id}).rowcount


def _only_id(
    connection: Connection, statement: LiteralString, arguments: Mapping[str, object]
) -> UUID:
    row = connection.execute(statement, arguments).fetchone()
    if row is None:  # a SELECT of a function answers one row, or raises
        raise AssertionError(statement)
    message_id: UUID = row["id"]
    return message_id
