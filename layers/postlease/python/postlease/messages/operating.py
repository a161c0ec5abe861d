"""Messages mended by services and operators. Each verb is one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from postlease import outbox
from postlease.errors import ConflictError, InvalidInputError
from postlease.messages import reading
from postlease.messages.finding import detailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from uuid import UUID

    from postlease.database import Connection, Database
    from postlease.outbox import CancelWord, ResolveWord, RetryWord

MOST_RETRIED = 1000
"""By one call: a transaction must not hold that many rows for long."""

_REFUSALS: dict[str, tuple[str, str]] = {
    "not_failed": ("message-not-failed", "Only a failed message can be retried."),
    "redacted": ("message-redacted", "Its content is not kept any more."),
    "superseded": ("message-superseded", "A newer mail took its place, or its link was used."),
    "expired": ("message-expired", "Its time, or that of its link, is over."),
    "not_pending": (
        "message-not-pending",
        "Only a message that nobody is sending yet can be cancelled.",
    ),
    "still_open": ("message-still-open", "Its call may still be under way."),
    "not_unknown": (
        "message-not-unknown",
        "Only a message whose outcome is unknown at this moment can be resolved.",
    ),
}


def retry(database: Database, wire_id: str) -> dict[str, Any] | None:
    """A failed message, pending again as a new mail at its provider; None if there is none.

    ConflictError says why one cannot be sent again; nothing was changed then.
    """
    message_id = reading.message_id(wire_id)
    with database.transaction() as connection:
        _done(outbox.retry(connection, message_id), "retried")
        return detailed(connection, message_id)


def resolve(
    database: Database, wire_id: str, *, as_: str, grace: timedelta
) -> dict[str, Any] | None:
    """An unknown message, `sent` or `failed` by an operator's word; None if there is none.

    ConflictError if its outcome is not unknown, or if it is to be `failed` earlier than grace after
    its lease's end, and then says from when on; nothing was changed then.
    """
    if as_ not in {"sent", "failed"}:
        raise InvalidInputError("/as", "must be `sent` or `failed`")
    message_id = reading.message_id(wire_id)
    with database.transaction() as connection:
        word = outbox.resolve(connection, message_id, as_sent=as_ == "sent", grace=grace)
        if word == "still_open":
            raise _still_open(connection, message_id, grace)
        _done(word, "resolved")
        return detailed(connection, message_id)


def _done(
    word: RetryWord | ResolveWord | CancelWord | None, wanted: RetryWord | ResolveWord | CancelWord
) -> None:
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


def cancel(database: Database, wire_id: str) -> dict[str, Any] | None:
    """A pending message, `failed(cancelled)` now; None if there is none.

    ConflictError if it is being sent or has ended; nothing was changed then.
    """
    message_id = reading.message_id(wire_id)
    with database.transaction() as connection:
        _done(outbox.cancel(connection, message_id), "cancelled")
        return detailed(connection, message_id)


@dataclass(frozen=True, slots=True)
class Retried:
    """What a retry of many did: how many are pending again, and how many could still be."""

    confirmed: bool
    retried: int
    left: int


def retry_many(database: Database, asked: Mapping[str, Any]) -> Retried:
    """Count the failed messages that asked (a body) means, or have the first of them sent again.

    Only with `confirm` anything changes. What `retry` would refuse is not counted.
    """
    moments = {
        name: reading.stated_moment(asked[name], pointer=f"/{name}")
        for name in ("created_after", "created_before")
        if asked.get(name) is not None
    }
    wanted = outbox.Wanted(
        reason=asked["reason"],
        template=asked.get("template"),
        created_from=moments.get("created_after"),
        created_before=moments.get("created_before"),
    )
    confirmed = bool(asked.get("confirm"))
    with database.transaction() as connection:
        retried = outbox.retry_many(connection, wanted, limit=MOST_RETRIED) if confirmed else 0
        left = outbox.count_retriable(connection, wanted)
    return Retried(confirmed, retried, left)
