"""The operations that find messages and change what becomes of them."""

from __future__ import annotations

from typing import get_args

from postlease import problems
from postlease.model import FailureReason, Status
from postlease.operations import (
    Member,
    Operation,
    Parameter,
    Reply,
    Shape,
    Value,
    body,
    choice,
    flag,
    listed,
    mapped,
    number,
    optional,
    schema_of,
    text,
)
from postlease.wire import EVENT_ID, HEX, MOMENT, ULID, stated_moment

MESSAGE_ID = Parameter(
    "path",
    "id",
    text(
        "an event id, or the UUID that `postlease.enqueue_email` answers",
        pattern=f"^(evt_{ULID}|{HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}})$",
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
_CLAIM: dict[str, Shape] = {
    "attempt": number("the claim that has not ended yet", minimum=1),
    "owner": text("one claim's"),
    "claimed_at": MOMENT,
    "lease_expires_at": MOMENT,
    "dispatched_at": MOMENT.or_null(),
    "provider": text().or_null(),
}
_ATTACHMENT: dict[str, Shape] = {
    "position": number(minimum=0),
    "content_type": text(),
    "size": number("bytes", minimum=0),
}
MESSAGE_IN_FULL: dict[str, Shape] = {
    **MESSAGE,
    "from": text(
        "the sender that was asked for; null for the deployment's or template's"
    ).or_null(),
    "reply_to": text("masked").or_null(),
    "tags": mapped(text()),
    "cancel_scope": text().or_null(),
    "attachments": listed(_ATTACHMENT, "their names are told with the recipients"),
    "max_attempts": number(
        "counted attempts that it may have; null: as many as the deployment says", minimum=1
    ).or_null(),
    "template_version": text("of the template, when it was sent").or_null(),
    "redacted_at": MOMENT.or_null(),
    "claim": Value({"oneOf": [schema_of(_CLAIM), {"type": "null"}]}),
    "attempts": listed(_ATTEMPT, "its ended claims, the oldest first"),
}


def _word(name: str, value: Value) -> Parameter:
    return Parameter("query", name, value)


SEARCH = (
    _word("status", choice(*get_args(Status))),
    _word("reason", choice(*get_args(FailureReason))),
    _word("template", text(pattern="^[a-z][a-z0-9_]{0,63}$")),
    _word("unknown", choice("true", "false", note="`true`: only those that are unknown now")),
    _word("created_after", stated_moment("included")),
    _word(
        "created_before",
        stated_moment("not included"),
    ),
    _word("cursor", text("from the page before", pattern="^[A-Za-z0-9_-]{22}$")),
    _word("limit", number(minimum=1, maximum=100, default=50)),
)

_TEMPLATE_NAME = text(pattern="^[a-z][a-z0-9_]{0,63}$")

SEARCH_MESSAGES = Operation(
    parameters=SEARCH,
    replies=(
        Reply(
            200,
            "a page of them; `cursor` asks for the next one and is null at the end",
            {"messages": listed(MESSAGE), "cursor": text().or_null()},
        ),
    ),
)
FIND = Operation(
    parameters=(MESSAGE_ID,),
    replies=(Reply(200, "the message", MESSAGE_IN_FULL),),
    problems=(problems.MESSAGE_UNKNOWN,),
)

_MAILBOXES = listed({"email": text(), "name": text().or_null()})
RECIPIENTS = Operation(
    parameters=(MESSAGE_ID,),
    replies=(
        Reply(
            200,
            "its recipients",
            {
                "event_id": EVENT_ID,
                "from": text().or_null(),
                "reply_to": text().or_null(),
                "to": _MAILBOXES,
                "cc": _MAILBOXES,
                "bcc": _MAILBOXES,
                "attachments": listed({**_ATTACHMENT, "filename": text()}),
            },
        ),
    ),
    problems=(problems.MESSAGE_UNKNOWN,),
)
RETRY = Operation(
    parameters=(MESSAGE_ID,),
    replies=(Reply(200, "it is pending again", MESSAGE_IN_FULL),),
    problems=(
        problems.MESSAGE_UNKNOWN,
        problems.MESSAGE_NOT_FAILED,
        problems.MESSAGE_REDACTED,
        problems.MESSAGE_SUPERSEDED,
        problems.MESSAGE_EXPIRED,
    ),
)
RETRY_MANY = Operation(
    bodies=(
        body(
            Member("reason", choice(*get_args(FailureReason), note="why they failed")),
            optional("template", _TEMPLATE_NAME),
            optional(
                "created_after",
                stated_moment("included"),
            ),
            optional(
                "created_before",
                stated_moment("not included"),
            ),
            optional("confirm", flag("without it they are only counted")),
        ),
    ),
    replies=(
        Reply(
            200,
            "at most 1000 are pending again; as many are left as another call would find",
            {
                "confirmed": flag(),
                "retried": number("pending again, by this call", minimum=0),
                "left": number("failed, and could be retried", minimum=0),
            },
        ),
    ),
)
CANCEL = Operation(
    parameters=(MESSAGE_ID,),
    replies=(Reply(200, "it has failed, as `cancelled`", MESSAGE_IN_FULL),),
    problems=(problems.MESSAGE_UNKNOWN, problems.MESSAGE_NOT_PENDING),
)
RESOLVE = Operation(
    parameters=(MESSAGE_ID,),
    bodies=(body(Member("as", choice("sent", "failed"))),),
    replies=(Reply(200, "it is what the caller says", MESSAGE_IN_FULL),),
    problems=(
        problems.MESSAGE_UNKNOWN,
        problems.MESSAGE_STILL_OPEN,
        problems.MESSAGE_NOT_UNKNOWN,
    ),
)

_BACKLOG: dict[str, Shape] = {
    "pending": number(minimum=0),
    "sending": number("those that are unknown too", minimum=0),
    "unknown": number("now", minimum=0),
    "oldest_due_seconds": Value(
        {"type": "number", "minimum": 0, "description": "how late the oldest is; 0: none is due"}
    ),
}
STATS = Operation(
    replies=(
        Reply(
            200,
            "what is unfinished now, and how what was made in the last 24 hours ended",
            {
                **_BACKLOG,
                "classes": {"auth": _BACKLOG, "transactional": _BACKLOG, "bulk": _BACKLOG},
                "last_day": {
                    "sent": number(minimum=0),
                    "failed": number(minimum=0),
                    "reasons": mapped(number(minimum=1), "how many failed, by reason"),
                },
            },
        ),
    ),
)
