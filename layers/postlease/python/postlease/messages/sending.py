"""Messages asked for: one or many, all or none, once for each key.

Nothing is asked of the network while the transaction is open: attachments are pinned before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from postlease import attachments, idempotency, outbox, tokens
from postlease.config import settings
from postlease.errors import ConflictError, InvalidInputError, RefusedInputError, RuleError
from postlease.faults import Faults
from postlease.messages import asking, ground
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from postlease.database import Connection, Database
    from postlease.messages.asking import Asked

ACCEPTED = 202
"""The status code that a stored answer is replayed with."""

# What the schema refuses, by constraint: the member at fault. Most is refused before; what two
# requests do at once, and how PostgreSQL writes a number, is known there alone.
_MEMBERS = {
    "template": "template",
    "to_addresses": "to",
    "email_messages_template_shape": "template",
    "email_messages_token_template": "template",
    "email_messages_parameters_size": "parameters",
    "email_messages_locale_shape": "locale",
    "email_messages_priority": "priority",
    "email_messages_delivery": "delivery",
    "email_messages_times_finite": "send_at",
    "email_messages_expires_after_send": "expires_at",
    "email_messages_key_length": "idempotency_key",
    "email_messages_scope_length": "cancel_scope",
    "email_messages_from_shape": "from",
    "email_messages_reply_to_shape": "reply_to",
}
_BEGINNINGS = {
    "email_messages_recipient": "to",
    "email_messages_names": "to",
    "email_messages_tags": "tags",
    "email_attachments": "attachments",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer to a request for mail. replayed: it is that of an earlier, equal request."""

    response: dict[str, Any]
    replayed: bool = False


def send(
    database: Database, document: Mapping[str, Any], *, producer: str, idempotency_key: str | None
) -> Sent:
    """Take the message that document asks for; commits.

    idempotency_key is the header's value as it came. Raises InvalidInputError and RefusedInputError
    with all faults, ConflictError for a key: then nothing was stored. UnavailableError.
    """
    key = _key(b"POST /v1/messages", producer, document, idempotency_key)
    faults = Faults()
    return _taken(
        database, producer, key, lambda: [asking.read(document, faults, "")], faults, batch=False
    )


def send_batch(
    database: Database, document: Mapping[str, Any], *, producer: str, idempotency_key: str | None
) -> Sent:
    """Take all the messages that document asks for, or none; otherwise as `send`."""
    key = _key(b"POST /v1/messages/batch", producer, document, idempotency_key)
    faults = Faults()

    def read() -> list[Asked]:
        return [
            asking.read(message, faults, f"/messages/{place}")
            for place, message in enumerate(document["messages"])
            if not faults.is_full
        ]

    return _taken(database, producer, key, read, faults, batch=True)


def _taken(
    database: Database,
    producer: str,
    key: idempotency.Key | None,
    read: Callable[[], list[Asked]],
    faults: Faults,
    *,
    batch: bool,
) -> Sent:
    if key is not None:
        # Templates, senders and objects may have changed since: an answer given stays given.
        with ground.transaction(database) as connection:
            if stored := idempotency.answered(connection, key):
                return Sent(stored.response, replayed=True)
    asked = read()
    faults.end()
    rows = _pinned(producer, asked)
    with ground.transaction(database) as connection:
        if key is not None:
            lifetime = settings().idempotency_lifetime
            if stored := idempotency.begin(connection, key, lifetime=lifetime):
                return Sent(stored.response, replayed=True)
        ids = [
            {"event_id": event_id(one.id)} for one in _enqueued(connection, producer, asked, rows)
        ]
        response: dict[str, Any] = {"messages": ids} if batch else dict(ids[0])
        if key is not None:
            idempotency.finish(connection, key, status_code=ACCEPTED, response=response)
    return Sent(response)


def _pinned(producer: str, asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """The rows with their attachments as they are now; asks the storage."""
    faults = Faults()
    rows = []
    seen: attachments.Seen = {}
    for one in asked:
        if faults.is_full:
            break
        try:
            pinned = attachments.pin(producer, one.wanted, seen)
        except InvalidInputError as error:
            faults.add(RefusedInputError(error.pointer, error.detail))
        else:
            rows.append(one.row | {"attachments": [each.as_member() for each in pinned]})
    faults.end()
    return rows


def _enqueued(
    connection: Connection, producer: str, asked: Sequence[Asked], rows: Sequence[dict[str, Any]]
) -> list[outbox.Accepted]:
    try:
        return outbox.enqueue_for(connection, producer, rows)
    except RuleError as error:
        raise _refused(error, asked[error.position].pointer) from None


def _refused(error: RuleError, pointer: str) -> Exception:
    """What a rule of the schema is to a caller."""
    rule = error.constraint or ""
    if rule == "email_messages_idempotency":
        return ConflictError(
            "idempotency-key-reused",
            "this key was used for a message of other content",
            pointer=f"{pointer}/idempotency_key",
        )
    if rule == "email_attachments_one_owner":
        return RefusedInputError(
            f"{pointer}/attachments",
            "an upload belongs to one message, and one of these has its own",
        )
    beginnings = (name for start, name in _BEGINNINGS.items() if rule.startswith(start))
    member = _MEMBERS.get(rule) or next(beginnings, None)
    if member is None:
        return error
    return RefusedInputError(f"{pointer}/{member}", f"is refused by the rule {rule}")


def _key(
    route: bytes, producer: str, document: Mapping[str, Any], header: str | None
) -> idempotency.Key | None:
    """The digests of the key, if there is one: its scope is route and principal."""
    if header is None:
        return None
    pepper = ground.pepper()
    scope = (b"idempotency", route, producer.encode(), idempotency.parse(header).encode())
    content = idempotency.canonical(dict(document))
    return idempotency.Key(
        key_digest=tokens.keyed_digest(pepper, *scope),
        request_digest=tokens.keyed_digest(pepper, b"request", content),
    )
