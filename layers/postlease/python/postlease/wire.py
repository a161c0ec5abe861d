"""The values that the operations of several routes share, as they stand on the wire."""

from __future__ import annotations

from typing import get_args

from postlease import problems
from postlease.model import FailureReason, Status
from postlease.operations import (
    HTML,
    Member,
    Parameter,
    Reply,
    Shape,
    Value,
    choice,
    flag,
    listed,
    number,
    text,
)

_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_HEX = "[0-9A-Fa-f]"
_MOMENT_NOTE = "RFC 3339, in UTC"

ID = text(format="uuid")
EVENT_ID = text(
    "the public id of one mail",
    pattern=f"^evt_{_ULID}$",
    examples=["evt_01M8MAWE46EPBBT1MHDSY4Q8D4"],
)
MOMENT = text(_MOMENT_NOTE, format="date-time")
EVENT_STATUS = choice(
    "queued",
    "sending",
    "sent",
    "expired",
    "failed",
    note="expired: too late, replaced or cancelled",
)

EMAIL = Member(
    "email",
    text(
        "one address: its local part in ASCII, its domain in letters of any script",
        format="email",
        minLength=5,
        maxLength=320,
        examples=["ada@example.com"],
    ),
)
LOCALE = Member(
    "locale",
    text(
        "a language tag (RFC 5646) for the mail",
        pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$",
        maxLength=35,
        examples=["de", "pt-BR"],
    ).or_null(),
    is_required=False,
)
TOKEN = Member("token", text("what the link in the mail carries", pattern="^[A-Za-z0-9_-]{64}$"))

LINK = Member("link", text("what a person pastes: the whole link out of the mail, or its token"))
REDIRECT = Parameter(
    "query",
    "redirect",
    text("where a person goes afterwards: taken if it is listed, else the first of the list is"),
)
ONWARD = text("one of the listed pages", format="uri")
ACCEPT_LANGUAGE = Parameter("header", "Accept-Language", text("English or German"))
CODE = Member(
    "code",
    text(
        "the six digits in the mail, where it shows any; blanks and hyphens do not matter",
        pattern="^[0-9]{6}$",
        examples=["042137"],
    ),
)

IDEMPOTENCY_KEY = Parameter(
    "header",
    "Idempotency-Key",
    text(
        "1 to 255 visible ASCII characters, bare or quoted: an equal request under the same key"
        " gets the first one's answer for 24 hours",
        pattern=r'^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")$',
        examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ),
)
REPLAYED = {
    "idempotent-replayed": choice("true", note="the answer of the first request with this key")
}
KEY_PROBLEMS = (problems.IDEMPOTENCY_KEY_REUSED, problems.IDEMPOTENCY_KEY_IN_PROGRESS)

MESSAGE_ID = Parameter(
    "path",
    "id",
    text(
        "an event id, or the UUID that `postlease.enqueue_email` answers",
        pattern=f"^(evt_{_ULID}|{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}})$",
    ),
)
USER_ID = Parameter(
    "path",
    "id",
    text(
        "the `user_id` that the sign-up answered",
        pattern=f"^{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}$",
    ),
)
_ADDRESSES = listed(text(), "masked: `a***@example.com`")

MESSAGE: dict[str, Shape] = {
    "event_id": EVENT_ID,
    "template": text(),
    "locale": text(),
    "status": choice(*get_args(Status)),
    "reason": choice(*get_args(FailureReason), note="why it failed").or_null(),
    "unknown": flag("its call has left, its lease is over, and nobody has heard"),
    "priority": number("0, 50 or 100"),
    "delivery": choice("at_least_once", "at_most_once"),
    "attempt_count": number("claims"),
    "counted_attempts": number("claims that were the message's own"),
    "retry_count": number("how often an operator had it sent again"),
    "provider": text().or_null(),
    "provider_message_id": text().or_null(),
    "to": _ADDRESSES,
    "cc": _ADDRESSES,
    "bcc": _ADDRESSES,
    "created_at": MOMENT,
    "available_at": MOMENT,
    "expires_at": MOMENT.or_null(),
    "lease_expires_at": MOMENT.or_null(),
    "sent_at": MOMENT.or_null(),
    "finished_at": MOMENT.or_null(),
}
_ATTEMPT: dict[str, Shape] = {
    "attempt": number(minimum=1),
    "owner": text("one claim's"),
    "claimed_at": MOMENT,
    "lease_expires_at": MOMENT,
    "dispatched_at": MOMENT.or_null(),
    "ended_at": MOMENT,
    "outcome": text(),
    "code": text().or_null(),
    "provider": text().or_null(),
    "provider_message_id": text().or_null(),
    "refunded": flag(),
}
MESSAGE_IN_FULL: dict[str, Shape] = {
    **MESSAGE,
    "attempts": listed(_ATTEMPT, "its ended claims, the oldest first"),
}


def _word(name: str, value: Value) -> Parameter:
    return Parameter("query", name, value)


SEARCH = (
    _word("status", choice(*get_args(Status))),
    _word("reason", choice(*get_args(FailureReason))),
    _word("template", text(pattern="^[a-z][a-z0-9_]{0,63}$")),
    _word("unknown", choice("true", "false", note="`true`: only those that are unknown now")),
    _word("created_after", text(f"included; {_MOMENT_NOTE} or with an offset", format="date-time")),
    _word(
        "created_before",
        text(f"not included; {_MOMENT_NOTE} or with an offset", format="date-time"),
    ),
    _word("cursor", text("from the page before", pattern="^[A-Za-z0-9_-]{22}$")),
    _word("limit", number(minimum=1, maximum=100, default=50)),
)


def page(status: int, note: str, **headers: Value) -> Reply:
    """An answer for people."""
    return Reply(status, f"a page: {note}", text(), HTML, headers)
