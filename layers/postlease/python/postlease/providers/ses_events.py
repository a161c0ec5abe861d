"""What Amazon SES tells through EventBridge, read without trust: what is ours, and what it says.

Shapes: "Contents of event data that Amazon SES publishes" and "SES events schema reference" in the
SES developer guide. Anything may stand anywhere: what is not as it should be is `Ignored`, never an
exception. Only the fields named here are looked at; SMTP diagnostics are not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast
from uuid import UUID

Kind: TypeAlias = Literal["Send", "Delivery", "Bounce", "Complaint", "Reject", "DeliveryDelay"]
Effect: TypeAlias = Literal["hard", "soft", "complaint", "delivered"]
Reason: TypeAlias = Literal["unreadable", "foreign", "other_kind", "untagged", "malformed"]

STATUS = {"Sending Status Enabled": True, "Sending Status Disabled": False}

_MOST_ADDRESSES = 50
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,8}")
_IDENTIFIER = re.compile(r"[!-~]{1,250}")
_ADDRESS = re.compile(r"(?:[^<>]*<)?([!-;=?A-~]{1,64}@[A-Za-z0-9.-]{1,255})>?")
# Kind: where its recipients and its time stand.
_PARTS: dict[str, tuple[str, str]] = {
    "Send": ("send", ""),
    "Delivery": ("delivery", "recipients"),
    "Bounce": ("bounce", "bouncedRecipients"),
    "Complaint": ("complaint", "complainedRecipients"),
    "Reject": ("reject", ""),
    "DeliveryDelay": ("deliveryDelay", ""),
}
# They tell of the message, not of the mailbox.
_MESSAGE_FAULTS = ("MessageTooLarge", "ContentRejected", "AttachmentRejected")


@dataclass(frozen=True, slots=True)
class MailEvent:
    """An attempt of ours was accepted, and this became of it.

    Every kind says so: even a rejected mail was accepted first. effect is what it means for
    addresses, and None where it means nothing; happened_at is SES's own time, if it is readable.
    """

    kind: Kind
    message_id: UUID
    attempt: int
    provider_message_id: str
    effect: Effect | None
    addresses: tuple[str, ...] = field(repr=False)
    happened_at: datetime | None


@dataclass(frozen=True, slots=True)
class SendingStatus:
    """SES lets our account or configuration set send, or does not."""

    enabled: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing that concerns us."""

    reason: Reason


SesEvent: TypeAlias = MailEvent | SendingStatus | Ignored


def read(body: object, *, account: str, configuration_set: str | None) -> SesEvent:
    """What the EventBridge event in body, a JSON text, says to this account's configuration set."""
    try:
        event = json.loads(body) if isinstance(body, str) else None
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        return Ignored("unreadable")
    ours = event.get("source") == "aws.ses" and event.get("account") == account
    if not (ours and configuration_set):
        return Ignored("foreign")
    detail_type = event.get("detail-type")
    if isinstance(detail_type, str) and detail_type in STATUS:
        return _sending_status(event, configuration_set, enabled=STATUS[detail_type])
    mail = _inside(event, "detail", "mail")
    sets = _inside(mail, "tags", "ses:configuration-set")
    if _inside(mail, "sendingAccountId") != account or sets != [configuration_set]:
        return Ignored("foreign")
    return _mail_event(event["detail"], mail)


def _mail_event(detail: Any, mail: Any) -> MailEvent | Ignored:
    kind = _inside(detail, "eventType")
    if not isinstance(kind, str) or kind not in _PARTS:
        return Ignored("other_kind")
    message_id = _tag(mail, "postlease-id", _UUID)
    attempt = _tag(mail, "postlease-attempt", _ATTEMPT)
    if message_id is None or attempt is None:
        return Ignored("untagged")
    provider_message_id = _inside(mail, "messageId")
    if not _matches(_IDENTIFIER, provider_message_id):
        return Ignored("malformed")
    part, recipients = _PARTS[kind]
    effect = _effect(kind, _inside(detail, part))
    return MailEvent(
        kind=cast("Kind", kind),
        message_id=UUID(message_id),
        attempt=int(attempt),
        provider_message_id=provider_message_id,
        effect=effect,
        addresses=_addresses(_inside(detail, part, recipients)) if effect else (),
        happened_at=_moment(_inside(detail, part, "timestamp")),
    )


def _effect(kind: str, part: Any) -> Effect | None:
    match kind:
        case "Delivery":
            return "delivered"
        case "Complaint":
            # A recipient who took the mail out of the spam folder complains of nothing.
            return None if _inside(part, "complaintFeedbackType") == "not-spam" else "complaint"
        case "Bounce" if _inside(part, "bounceType") == "Permanent":
            return "hard"
        case "Bounce" if _inside(part, "bounceType") in ("Transient", "Undetermined"):
            return None if _inside(part, "bounceSubType") in _MESSAGE_FAULTS else "soft"
    return None


def _sending_status(
    event: dict[str, Any], configuration_set: str, *, enabled: bool
) -> SendingStatus | Ignored:
    """A status of the account names no resource of a kind; any other one must name our set."""
    resources = event.get("resources", [])
    if not isinstance(resources, list) or not all(isinstance(arn, str) for arn in resources):
        return Ignored("malformed")
    stated = _inside(event, "detail", "data", "record", "status")
    if stated not in (None, "ENABLED" if enabled else "DISABLED"):
        return Ignored("malformed")
    names = [arn.split(":", 5)[-1] for arn in resources]
    if f"configuration-set/{configuration_set}" in names or not any("/" in n for n in names):
        return SendingStatus(enabled)
    return Ignored("foreign")


def _inside(value: Any, *path: str) -> Any:
    """What stands at path, or None where there is no such place."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _tag(mail: Any, name: str, pattern: re.Pattern[str]) -> str | None:
    """The one value of a tag, if it is as we write it."""
    match _inside(mail, "tags", name):
        case [str(value)] if _matches(pattern, value):
            return value
    return None


def _addresses(given: Any) -> tuple[str, ...]:
    """The addresses in a list of texts, or of objects that hold one; what is none is left out."""
    found: dict[str, None] = {}
    for entry in given if isinstance(given, list) else ():
        text = _inside(entry, "emailAddress") if isinstance(entry, dict) else entry
        if isinstance(text, str) and (address := _ADDRESS.fullmatch(text.strip()[:512])):
            found[address[1].lower()] = None
    return tuple(found)[:_MOST_ADDRESSES]


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    # Years at either end would leave the range of PostgreSQL's arithmetic or of the zone's.
    return moment if moment.tzinfo is not None and 2000 <= moment.year < 3000 else None
