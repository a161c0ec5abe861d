"""Messages as services and operators may see them: searched, looked into, counted.

What is answered holds no parameter, no key and no whole address; but for `recipients`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from postlease import outbox
from postlease.addresses import masked
from postlease.messages import reading
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from postlease.database import Connection, Database
    from postlease.outbox import MessageState

_DAY = timedelta(days=1)
_CLASSES = {0: "auth", 50: "transactional", 100: "bulk"}

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
    limit = reading.limit(parameters)
    wanted = reading.wanted(parameters)
    with database.transaction() as connection:
        found = outbox.search(connection, wanted, limit=limit + 1)
    cursor = reading.cursor(found[limit - 1].id) if len(found) > limit else None
    return Page([_shown(state) for state in found[:limit]], cursor)


def find(database: Database, wire_id: str) -> dict[str, Any] | None:
    """One message with the history of its attempts, or None."""
    with database.transaction() as connection:
        return detailed(connection, reading.message_id(wire_id))


def detailed(connection: Connection, message_id: UUID) -> dict[str, Any] | None:
    """One message in full, or None."""
    state = outbox.find(connection, message_id)
    if state is None:
        return None
    attempts = [{name: entry.get(name) for name in _ENTRY} for entry in state.attempts]
    return _shown(state) | {
        "from": state.from_address,
        "reply_to": _masked_mailbox(state.reply_to) if state.reply_to else None,
        "tags": state.tags,
        "cancel_scope": state.cancel_scope,
        "attachments": [
            {name: one[name] for name in ("position", "content_type", "size")}
            for one in state.attachments
        ],
        "max_attempts": state.max_attempts,
        "template_version": state.template_version,
        "redacted_at": _text(state.redacted_at),
        "claim": _claim(state) if state.lease_owner is not None else None,
        "attempts": attempts,
    }


def _claim(state: MessageState) -> dict[str, Any]:
    """The claim that has not ended yet, by the names of an attempt."""
    return {
        "attempt": state.attempt_count,
        "owner": state.lease_owner,
        "claimed_at": _text(state.claimed_at),
        "lease_expires_at": _text(state.lease_expires_at),
        "dispatched_at": _text(state.dispatched_at),
        "provider": state.provider,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _shown(state: MessageState) -> dict[str, Any]:
    times = {
        name: _text(value)
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


def _masked_mailbox(mailbox: str) -> str:
    """The address of `name <address>`, masked, without the name."""
    return masked(mailbox.rpartition("<")[2].removesuffix(">"))


def recipients(database: Database, wire_id: str) -> dict[str, Any] | None:
    """Who gets a message, by whole addresses and names, and its attachments' names; or None."""
    with database.transaction() as connection:
        state = outbox.find(connection, reading.message_id(wire_id))
    if state is None:
        return None
    return {
        "event_id": event_id(state.id),
        "from": state.from_address,
        "reply_to": state.reply_to,
        "to": _mailboxes(state, state.to_addresses),
        "cc": _mailboxes(state, state.cc_addresses),
        "bcc": _mailboxes(state, state.bcc_addresses),
        "attachments": state.attachments,
    }


def _mailboxes(state: MessageState, found: list[str]) -> list[dict[str, str | None]]:
    names = state.recipient_names
    return [{"email": address, "name": names.get(address.lower())} for address in found]


def stats(database: Database) -> dict[str, Any]:
    """What is unfinished now, in all and by class, and how the last 24 hours' messages ended."""
    with database.transaction() as connection:
        backlog = {one.priority: one for one in outbox.backlog_by_class(connection)}
        ended = outbox.finished_lately(connection, window=_DAY)
    classes = {
        name: backlog.get(priority, outbox.ClassBacklog(priority))
        for priority, name in _CLASSES.items()
    }
    counted = [_backlog(one) for one in classes.values()]
    sent = ended.pop(None, 0)
    return {
        **{name: sum(one[name] for one in counted) for name in ("pending", "sending", "unknown")},
        "oldest_due_seconds": max(one["oldest_due_seconds"] for one in counted),
        "classes": {name: _backlog(one) for name, one in classes.items()},
        "last_day": {"sent": sent, "failed": sum(ended.values()), "reasons": ended},
    }


def _backlog(one: outbox.ClassBacklog) -> dict[str, float]:
    return {
        "pending": one.pending,
        "sending": one.sending,
        "unknown": one.unknown,
        "oldest_due_seconds": one.oldest_due_seconds,
    }
