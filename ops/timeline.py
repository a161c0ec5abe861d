"""One message's life as lines to read: what was asked for, each attempt, what is now. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ops.printing import moment, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Message = Mapping[str, Any]

CLASSES = {0: "auth", 50: "transactional", 100: "bulk"}

OPERATOR = "operator"
"""The provider's id of what an operator resolved as sent."""

REASONS = {
    "rejected": "The provider refused this message for good: its content, or its only recipients.",
    "render_error": "The template is missing, or a parameter that it needs is. Nothing was sent.",
    "attachment_missing": "A file that was to be attached is gone. Nothing was sent.",
    "attachment_changed": "A file that was to be attached is another one now. Nothing was sent.",
    "attempts_exhausted": 'The provider said "not now" at every allowed attempt.',
    "worker_lost": "Three workers died over this message before the call. Nothing was sent.",
    "outcome_unknown": "The call left, no answer came. It may have been sent; sending again would"
    " risk a duplicate.",
    "expired": "Its time, or that of its link, was over before its turn. Nothing was sent.",
    "superseded": "A newer mail took its place, its link was used already, or the account that it"
    " told of is gone from this address. Nothing was sent.",
    "suppressed": "All its recipients are on the suppression list. Nothing was sent.",
    "cancelled": "Somebody took it back. Nothing was sent.",
}


def state(message: Message) -> str:
    """Its status in a word, with the reason or what is not known."""
    if message["unknown"]:
        return "sending (unknown)"
    return f"failed ({message['reason']})" if message["reason"] else str(message["status"])


def life(message: Message, gate: Mapping[str, Any] | None = None) -> list[str]:
    """The whole life of a message in full; gate is that of the provider in use, where known."""
    return [
        f"{message['event_id']}  {state(message)}",
        *(f"  {name:<12}{text}" for name, text in about(message)),
        "",
        *(f"  {moment(at) if at else '…':<26}{text}" for at, text in history(message)),
        "",
        now(message, gate),
    ]


def about(message: Message) -> list[tuple[str, str]]:
    """What was asked for: names and texts, those that say something."""
    return [(name, plain(text)) for name, text in _about(message) if text]


def history(message: Message) -> list[tuple[str | None, str]]:
    """What happened, in order, each with its moment; None where that is not kept."""
    return [(at, plain(text)) for at, text in _history(message)]


def _about(message: Message) -> Iterator[tuple[str, str]]:
    version = f", version {message['template_version']}" if message["template_version"] else ""
    yield "template", f"{message['template']} ({message['locale']}){version}"
    for name in ("to", "cc", "bcc"):
        yield name, ", ".join(message[name])
    yield "from", message["from"] or ""
    yield "reply to", message["reply_to"] or ""
    kind = CLASSES.get(message["priority"], f"priority {message['priority']}")
    yield "kind", f"{kind}, {message['delivery']}"
    limit = message["max_attempts"]
    allowed = f" of {limit}" if limit else ""
    again = f", {message['retry_count']} times by an operator" if message["retry_count"] else ""
    yield (
        "attempts",
        f"{message['attempt_count']}, of which count {message['counted_attempts']}{allowed}{again}",
    )
    yield "tags", ", ".join(f"{name}={value}" for name, value in message["tags"].items())
    yield "scope", message["cancel_scope"] or ""
    yield (
        "attached",
        ", ".join(f"{one['content_type']} {one['size']} bytes" for one in message["attachments"]),
    )
    yield "expires", moment(message["expires_at"]) if message["expires_at"] else ""
    yield "redacted", moment(message["redacted_at"]) if message["redacted_at"] else ""


def _history(message: Message) -> Iterator[tuple[str | None, str]]:
    yield message["created_at"], "asked for"
    kept = message["attempts"]
    claim = message["claim"]
    gone = message["attempt_count"] - len(kept) - (1 if claim else 0)
    if gone > 0:
        yield None, f"{gone} earlier attempts are not kept any more"
    for attempt in kept:
        yield from _attempt(attempt)
    if claim:
        yield from _begun(claim)
    if message["finished_at"]:
        by = " by an operator's word" if message["provider_message_id"] == OPERATOR else ""
        yield message["finished_at"], f"{state(message)}{by}"


def _begun(attempt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    name = f"attempt {attempt['attempt']}"
    yield (
        attempt["claimed_at"],
        f"{name}: claimed by {attempt['owner']}, lease until {moment(attempt['lease_expires_at'])}",
    )
    if attempt["dispatched_at"]:
        yield (
            attempt["dispatched_at"],
            f"{name}: the call to {attempt['provider']} may have left from here on",
        )


def _attempt(attempt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _begun(attempt)
    code = f" ({attempt['code']})" if attempt["code"] else ""
    told = ", told by the provider's event" if attempt["code"] == "event" else ""
    named = (
        f", provider's id {attempt['provider_message_id']}"
        if attempt["provider_message_id"]
        else ""
    )
    free = ", not counted" if attempt["refunded"] else ""
    yield (
        attempt["ended_at"],
        f"attempt {attempt['attempt']}: {attempt['outcome']}{told or code}{named}{free}",
    )


def now(message: Message, gate: Mapping[str, Any] | None = None) -> str:
    """What is so now, in a sentence or two."""
    match message["status"]:
        case "sent":
            named = message["provider_message_id"]
            if named == OPERATOR:
                return "Now: sent, by an operator's word."
            return plain(f"Now: sent by {message['provider']}, which calls it {named}.")
        case "failed":
            said = REASONS.get(message["reason"], "")
            unknown = any(one["outcome"] == "unknown" for one in message["attempts"])
            doubt = (
                " An earlier attempt is unknown: that one may have been sent." if unknown else ""
            )
            return f"Now: failed. {said}{doubt if message['reason'] != 'outcome_unknown' else ''}"
        case "sending" if message["unknown"]:
            return (
                "Now: the call left, its lease is over, and nobody has heard. An event, the"
                " provider's key or the policy settles it; or `ops resolve`, if you know."
            )
        case "sending":
            return f"Now: being sent; the lease ends at {moment(message['lease_expires_at'])}."
    waits = f"Now: waits; due at {moment(message['available_at'])}."
    if gate and gate["state"] != "open":
        waits += f" The gate of {gate['provider']} is {gate['state']} ({gate['reason']})."
    return plain(waits)
