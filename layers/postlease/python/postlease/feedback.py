"""What the provider tells after the call: it settles what is open, and keeps list and gate.

Events come late, doubled, in any order, before the answer to the call and after its message is
gone. So every step here may be repeated, and none depends on another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from postlease import gate, outbox, secret_store, suppression, tokens
from postlease.model import event_id
from postlease.providers.ses_events import Ignored, MailEvent, SendingStatus, read
from postlease.telemetry import logger

if TYPE_CHECKING:
    from postlease.config import Settings
    from postlease.database import Database

PROVIDER = "ses"

Word: TypeAlias = Literal["ignored", "noted", "status"]


@dataclass(frozen=True, slots=True)
class Taken:
    """What one event did. suppressed counts the entries of the list that it changed.

    bounced_hard: for good, which is what providers judge a sender by; as a share of those and of
    what was delivered.
    """

    word: Word
    settled: bool = False
    suppressed: int = 0
    bounced: bool = False
    bounced_hard: bool = False
    delivered: bool = False
    complained: bool = False


def take(settings: Settings, database: Database, body: object, *, account: str) -> Taken:
    """Do what the event in body asks for, and commit; whatever is not ours is ignored.

    account is the one we run in. Raises UnavailableError when database or secret store is away, and
    DatabaseError when a statement is refused; the same event may then be given again.
    """
    event = read(body, account=account, configuration_set=settings.ses_configuration_set)
    match event:
        case Ignored(reason):
            logger.info("event ignored", extra={"reason": reason})
            return Taken("ignored")
        case SendingStatus(enabled):
            _move_gate(database, enabled=enabled)
            return Taken("status")
        case MailEvent():
            return _note(settings, database, event)
        case _:
            assert_never(event)


def _move_gate(database: Database, *, enabled: bool) -> None:
    """Close the gate, or open it. A wrong opening ends with the next answer that says so."""
    connection = database.connection()
    if enabled:
        moved = gate.open_gate(connection, PROVIDER)
    else:
        closing = gate.close_gate(connection, PROVIDER, reason="sending_disabled")
        moved = closing is not None
    logger.warning(
        "sending status", extra={"provider": PROVIDER, "enabled": enabled, "gate_moved": moved}
    )


def _note(settings: Settings, database: Database, event: MailEvent) -> Taken:
    settled = outbox.settle_accepted(
        database.connection(),
        message_id=event.message_id,
        attempt=event.attempt,
        provider_message_id=event.provider_message_id,
    )
    taken = Taken(
        "noted",
        settled=settled,
        suppressed=_keep_list(settings, database, event) if event.addresses else 0,
        bounced=event.kind == "Bounce",
        bounced_hard=event.kind == "Bounce" and event.effect == "hard",
        delivered=event.kind == "Delivery",
        complained=event.kind == "Complaint",
    )
    logger.info(
        "event noted",
        extra={
            "event_id": event_id(event.message_id),
            "message_id": str(event.message_id),
            "attempt": event.attempt,
            "provider": PROVIDER,
            "provider_message_id": event.provider_message_id,
            "kind": event.kind,
            "effect": event.effect,
            "settled": taken.settled,
            "suppressed": taken.suppressed,
        },
    )
    return taken


def _keep_list(settings: Settings, database: Database, event: MailEvent) -> int:
    """Note what event means for its addresses; how many entries of the list changed."""
    pepper = tokens.pepper(secret_store.read_text(settings.pepper_secret_arn))
    digests = [suppression.digest(pepper, address) for address in event.addresses]
    connection = database.connection()
    match event.effect:
        case "hard":
            return suppression.note_hard(connection, digests, at=event.happened_at)
        case "soft":
            counted = suppression.bounce_digest(pepper, event.provider_message_id)
            return suppression.note_soft(connection, digests, event=counted, at=event.happened_at)
        case "complaint":
            return suppression.note_complaint(connection, digests)
        case "delivered":
            suppression.note_delivery(connection, digests, at=event.happened_at)
    return 0
