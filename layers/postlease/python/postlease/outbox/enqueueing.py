"""Messages are born here, in the caller's transaction, and replaced here by newer ones."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from postlease.database import translated_errors
from postlease.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import AttachmentReference, DeliveryPolicy

ENQUEUE: LiteralString = """-- outbox.enqueue
SELECT postlease.enqueue_email(
    template => %(template)s, to_addresses => %(to)s::text[], parameters => %(parameters)s::jsonb,
    cc_addresses => %(cc)s::text[], bcc_addresses => %(bcc)s::text[], names => %(names)s::jsonb,
    locale => %(locale)s, priority => %(priority)s, delivery => %(delivery)s,
    send_at => %(send_at)s::timestamptz, expires_at => %(expires_at)s::timestamptz,
    idempotency_key => %(idempotency_key)s, cancel_scope => %(cancel_scope)s,
    from_address => %(from_address)s, reply_to => %(reply_to)s, tags => %(tags)s::jsonb,
    attachments => %(attachments)s::jsonb)
"""

ENQUEUE_AUTH: LiteralString = """-- outbox.enqueue_auth
SELECT postlease.enqueue_auth_email(
    template => %(template)s, user_id => %(user_id)s, token_id => %(token_id)s,
    locale => %(locale)s, lifetime => %(lifetime)s)
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

# Always another time than before, by a microsecond at least: an update that leaves the indexes
# alone costs less, and would tell that there was nothing whose place to take.
TAKE_PLACE: LiteralString = """-- outbox.take_place
UPDATE postlease.email_messages AS m
SET available_at = least(m.available_at - interval '1 microsecond', %(waits_since)s::timestamptz)
WHERE m.id = %(id)s
"""

_UNSTORED = re.compile("[\x00\ud800-\udfff]")


def enqueue(  # noqa: PLR0913 - one for each of the contract's
    connection: psycopg.Connection[Any],
    *,
    template: str,
    to: Sequence[str],
    parameters: Mapping[str, Any],
    cc: Sequence[str] = (),
    bcc: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    locale: str = "en",
    priority: int = 50,
    delivery: DeliveryPolicy = "at_least_once",
    send_at: datetime | None = None,
    expires_at: datetime | None = None,
    idempotency_key: str | None = None,
    cancel_scope: str | None = None,
    from_address: str | None = None,
    reply_to: str | None = None,
    tags: Mapping[str, str] | None = None,
    attachments: Sequence[AttachmentReference] = (),
) -> UUID:
    """Ask for an email in the caller's transaction; does not commit.

    Rows may come from connection in any form. names has display names by the address in lower case.
    Raises InvalidInputError for what is not JSON or no text, DatabaseError with the constraint's
    name for what the schema refuses.
    """
    arguments = {
        "template": template,
        "to": list(to),
        "parameters": _json(dict(parameters), "/parameters"),
        "cc": list(cc),
        "bcc": list(bcc),
        "names": _json(dict(names or {}), "/names"),
        "locale": locale,
        "priority": priority,
        "delivery": delivery,
        "send_at": send_at,
        "expires_at": expires_at,
        "idempotency_key": idempotency_key,
        "cancel_scope": cancel_scope,
        "from_address": from_address,
        "reply_to": reply_to,
        "tags": _json(dict(tags or {}), "/tags"),
        "attachments": _json([_member(one) for one in attachments], "/attachments"),
    }
    for name, value in arguments.items():
        # The driver's own refusal would carry the text.
        if isinstance(value, str) and _UNSTORED.search(value):
            raise InvalidInputError(f"/{name}", "holds what PostgreSQL cannot store")
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


def take_place(connection: Connection, message_id: UUID, *, waits_since: datetime | None) -> None:
    """Put a new message where the one that it replaces waited; does not commit.

    Else whoever asks again and again would keep it at the queue's end. None: there was none.
    """
    with translated_errors():
        connection.execute(TAKE_PLACE, {"id": message_id, "waits_since": waits_since})


def supersede_notes(connection: Connection, user_id: UUID) -> int:
    """End the pending notes that this account exists; does not commit. Answers how many.

    One that is being sent is left to the dispatch check.
    """
    with translated_errors():
        return connection.execute(SUPERSEDE_NOTES, {"user_id": user_id}).rowcount


def _json(value: object, pointer: str) -> str:
    # What PostgreSQL does not read, `NaN` for one, it would repeat in its error.
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInputError(pointer, "holds what JSON cannot say") from None


def _member(attachment: AttachmentReference) -> dict[str, Any]:
    return dataclasses.asdict(attachment) | {"sha256": attachment.sha256.hex()}


def _only_id(
    connection: psycopg.Connection[Any], statement: LiteralString, arguments: Mapping[str, object]
) -> UUID:
    # A cursor of our own: a producer's connection makes rows and reads parameters in its own way.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        row = cursor.execute(statement, arguments).fetchone()
    if row is None:  # a SELECT of a function answers one row, or raises
        raise AssertionError(statement)
    message_id: UUID = row[0]
    return message_id
