"""What stands on the wire: the values that several routes share, and the signed routes' operations.

messages      those that find, retry, resolve, cancel and count messages
sending       those that ask for messages and attachments
suppressing   those of the suppression list
gates         those of the gates in front of the providers
"""

from __future__ import annotations

from postlease import problems
from postlease.operations import (
    HTML,
    Member,
    Parameter,
    Reply,
    Value,
    choice,
    text,
)

ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
HEX = "[0-9A-Fa-f]"
MOMENT_NOTE = "RFC 3339, in UTC"

ID = text(format="uuid")
EVENT_ID = text(
    "the public id of one mail",
    pattern=f"^evt_{ULID}$",
    examples=["evt_01M8MAWE46EPBBT1MHDSY4Q8D4"],
)
MOMENT = text(MOMENT_NOTE, format="date-time")


def stated_moment(note: str = "") -> Value:
    """A moment that the caller names."""
    said = "RFC 3339, with an offset; its year from 0002 to 9998: others have none in some zone"
    return text(
        f"{note}; {said}" if note else said, format="date-time", pattern="^(?!0000|0001|9999)"
    )


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

USER_ID = Parameter(
    "path",
    "id",
    text(
        "the `user_id` that the sign-up answered",
        pattern=f"^{HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}}$",
    ),
)


def page(status: int, note: str, **headers: Value) -> Reply:
    """An answer for people."""
    return Reply(status, f"a page: {note}", text(), HTML, headers)
