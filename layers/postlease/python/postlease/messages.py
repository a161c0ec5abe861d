"""Messages for services and operators: find them, retry what failed, resolve what is unknown.

Each verb is one transaction. What is answered holds no parameter, no key and no whole address.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from postlease import outbox
from postlease.addresses import masked
from postlease.errors import ConflictError, InvalidInputError, MalformedInputError
from postlease.model import FailureReason, Status, event_id, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.database import Connection, Database
    from postlease.outbox import MessageState, ResolveWord, RetryWord, Wanted

LARGEST_PAGE = 100
DEFAULT_PAGE = 50

_CURSOR = re.compile(r"[A-Za-z0-9_-]{22}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)

_ENTRY = (
    "attempt",
    "owner",
    "claimed_at",
    "lease_expires_at",
    "dispatched_at",
    "ended_at",
    "outcome",
    "code",
    "provider",
    "provider_message_id",
    "refunded",
)

_REFUSALS: dict[str, tuple[str, str]] = {
    "not_failed": ("message-not-failed", "Only a failed message can be retried."),
    "redacted": ("message-redacted", "Its content is not kept any more."),
    "superseded": ("message-superseded", "A newer mail took its place, or its link was used."),
    "expired": ("message-expired", "Its time, or that of its link, is over."),
    "still_open": ("message-still-open", "Its call may still be under way."),
    "not_unknown": (
        "message-not-unknown",
        "Only a message whose outcome is unknown at this moment can be resolved.",
    ),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Messages, newest first. cursor asks for what follows; None at the end."""

    messages: list[dict[str, Any]]
    cursor: str | None


def search(database: Database, parameters: Mapping[str, str]) -> Page:
    """One page of the messages that the parameters of a search ask for.

    Pages go by id, so that what is made meanwhile moves nothing. InvalidInputError names a
    parameter that cannot be what it should.
    """
    limit = _number(parameters, "limit", DEFAULT_PAGE, high=LARGEST_PAGE)
    wanted = _wanted(parameters)
    with database.transaction() as connection:
        found = outbox.search(connection, wanted, limit=limit + 1)
    cursor = _cursor(found[limit - 1].id) if len(found) > limit else None
    return Page([_shown(state) for state in found[:limit]], cursor)


def find(database: Database, wire_id: str) -> dict[str, Any] | None:
    """One message with the history of its attempts, or None."""
    with database.transaction() as connection:
        return _detailed(connection, _id(wire_id))


def retry(database: Database, wire_id: str) -> dict[str, Any] | None:
    """A failed message, pending again as a new mail at its provider; None if there is none.

    ConflictError says why one cannot be sent again; nothing was changed then.
    """
    message_id = _id(wire_id)
    with database.transaction() as connection:
        _done(outbox.retry(connection, message_id), "retried")
        return _detailed(connection, message_id)


def resolve(
    database: Database, wire_id: str, *, as_: str, grace: timedelta
) -> dict[str, Any] | None:
    """An unknown message, `sent` or `failed` by an operator's word; None if there is none.

    ConflictError if its outcome is not unknown, or if it is to be `failed` earlier than grace after
    its lease's end, and then says from when on; nothing was changed then.
    """
    if as_ not in {"sent", "failed"}:
        raise InvalidInputError("/as", "must be `sent` or `failed`")
    message_id = _id(wire_id)
    with database.transaction() as connection:
        word = outbox.resolve(connection, message_id, as_sent=as_ == "sent", grace=grace)
        if word == "still_open":
            raise _still_open(connection, message_id, grace)
        _done(word, "resolved")
        return _detailed(connection, message_id)


def _done(word: RetryWord | ResolveWord | None, wanted: RetryWord | ResolveWord) -> None:
    """Nothing if the word is the wanted one, or None: then there is no message."""
    if word is not None and word != wanted:
        raise ConflictError(*_REFUSALS[word])


def _still_open(connection: Connection, message_id: UUID, grace: timedelta) -> ConflictError:
    """Why it cannot be resolved as failed yet. The row is locked: its lease is still the same."""
    code, detail = _REFUSALS["still_open"]
    state = outbox.find(connection, message_id)
    if state and state.lease_expires_at:
        until = (state.lease_expires_at + grace).isoformat()
        detail = f"{detail} It can be resolved as failed after {until}, as sent at any time."
    return ConflictError(code, detail)


def _id(text: str) -> UUID:
    """The id in its wire form, or as the UUID that `postlease.enqueue_email` answers."""
    if _UUID.fullmatch(text):
        return UUID(text)
    message_id = parse_event_id(text)
    if message_id is None:
        raise MalformedInputError(
            "id", "must be `evt_` and 26 characters of Crockford base32, or a UUID"
        )
    return message_id


def _detailed(connection: Connection, message_id: UUID) -> dict[str, Any] | None:
    state = outbox.find(connection, message_id)
    if state is None:
        return None
    attempts = [{name: entry.get(name) for name in _ENTRY} for entry in state.attempts]
    return _shown(state) | {"attempts": attempts}


def _shown(state: MessageState) -> dict[str, Any]:
    times = {
        name: None if value is None else value.isoformat()
        for name, value in (
            ("created_at", state.created_at),
            ("available_at", state.available_at),
            ("expires_at", state.expires_at),
            ("lease_expires_at", state.lease_expires_at),
            ("sent_at", state.sent_at),
            ("finished_at", state.finished_at),
        )
    }
    return {
        "event_id": event_id(state.id),
        "template": state.template,
        "locale": state.locale,
        "status": state.status,
        "reason": state.failure_reason,
        "unknown": state.is_unknown,
        "priority": state.priority,
        "delivery": state.delivery,
        "attempt_count": state.attempt_count,
        "counted_attempts": state.attempt_count - state.refunded_count,
        "retry_count": state.retry_count,
        "provider": state.provider,
        "provider_message_id": state.provider_message_id,
        "to": [masked(address) for address in state.to_addresses],
        "cc": [masked(address) for address in state.cc_addresses],
        "bcc": [masked(address) for address in state.bcc_addresses],
        **times,
    }


def _wanted(parameters: Mapping[str, str]) -> Wanted:
    template = parameters.get("template")
    if template is not None and not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", template):
        raise InvalidInputError("template", "must be a template's name")
    cursor = parameters.get("cursor")
    return outbox.Wanted(
        status=_choice(parameters, "status", get_args(Status)),
        reason=_choice(parameters, "reason", get_args(FailureReason)),
        template=template,
        unknown=_choice(parameters, "unknown", ("true", "false")) == "true",
        created_from=_moment(parameters, "created_after"),
        created_before=_moment(parameters, "created_before"),
        below=None if cursor is None else _position(cursor),
    )


def _choice(parameters: Mapping[str, str], name: str, allowed: tuple[Any, ...]) -> Any:
    value = parameters.get(name)
    if value is not None and value not in allowed:
        raise InvalidInputError(name, f"must be one of {', '.join(allowed)}")
    return value


def _number(parameters: Mapping[str, str], name: str, default: int, *, high: int) -> int:
    text = parameters.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= high:
        raise InvalidInputError(name, f"must be a whole number from 1 to {high}")
    return int(text)


def _moment(parameters: Mapping[str, str], name: str) -> datetime | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is None:
            raise ValueError  # noqa: TRY301  the same complaint
    except ValueError:
        raise InvalidInputError(
            name, "must be a time with its offset, such as 2026-03-12T09:30:00Z"
        ) from None
    return moment


def _cursor(last: UUID) -> str:
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def _position(cursor: str) -> UUID:
    if not _CURSOR.fullmatch(cursor):
        raise InvalidInputError("cursor", "is not one of ours")
    return UUID(bytes=base64.urlsafe_b64decode(f"{cursor}=="))
