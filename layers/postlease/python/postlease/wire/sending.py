"""The operations that ask for mail, one message or many, and for a place for an attachment."""

from __future__ import annotations

from postlease import problems
from postlease.operations import (
    Member,
    Operation,
    Reply,
    Value,
    body,
    choice,
    either,
    listed,
    mapped,
    number,
    number_of,
    object_of,
    optional,
    text,
)
from postlease.wire import (
    EMAIL,
    EVENT_ID,
    IDEMPOTENCY_KEY,
    KEY_PROBLEMS,
    LOCALE,
    MOMENT,
    REPLAYED,
    stated_moment,
)

LARGEST_MESSAGE = 256 * 1024
LARGEST_BATCH = 1024 * 1024
"""Bytes of a request's body."""

_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_TURNING = r"\u202a-\u202e\u2066-\u2069"

_NAME = text(
    "shown before the address; no control character, line separator or change of direction",
    pattern=f"^[^{_CONTROLS}{_TURNING}]{{1,100}}$",
    examples=["Ada Lovelace"],
)
_MAILBOX = either(
    Value({**EMAIL.value.schema, "description": "one address"}),
    object_of(EMAIL, optional("name", _NAME)),
    note="an address, alone or with the name before it",
)
_KEY = text(pattern=f"^[^{_CONTROLS}]{{1,255}}$", examples=["receipt-A-1001"])
_FILENAME = text(pattern=f"^[^{_CONTROLS}]{{1,255}}$", examples=["receipt.pdf"])
_CONTENT_TYPE = text(
    "by default what the name's ending says",
    pattern="^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}$",
    examples=["application/pdf"],
)
_TAG = "^[A-Za-z0-9_-]{1,256}$"
_ATTACHMENT = object_of(
    Member(
        "storage_ref",
        text("what `POST /v1/attachments` answered", minLength=1, maxLength=1024),
    ),
    Member("filename", _FILENAME),
    optional("content_type", _CONTENT_TYPE),
    optional(
        "content_id",
        text(
            "of an image that the template shows as `cid:`",
            pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        ),
    ),
    optional(
        "version_id",
        text("by default the one that is there now", pattern="^[!-~]{1,1024}$"),
    ),
)

MESSAGE = (
    Member("template", text("its name", pattern="^[a-z][a-z0-9_]{0,63}$", examples=["receipt"])),
    Member(
        "to",
        listed(_MAILBOX, "1 to 50 together with cc and bcc", minItems=1, maxItems=50),
    ),
    optional("cc", listed(_MAILBOX, maxItems=49)),
    optional("bcc", listed(_MAILBOX, "in no header", maxItems=49)),
    optional("parameters", mapped(None, "the template's, 64 kB at most")),
    LOCALE,
    optional("priority", number_of(50, 100, note="100 for bulk; by default 50")),
    optional("delivery", choice("at_least_once", "at_most_once", note="by default the first")),
    optional("send_at", stated_moment()),
    optional(
        "expires_at", Value({**stated_moment().schema, "description": "later than `send_at`"})
    ),
    optional("idempotency_key", _KEY),
    optional(
        "cancel_scope",
        Value({**_KEY.schema, "description": "a newer message supersedes its pending ones"}),
    ),
    optional("from", _MAILBOX),
    optional("reply_to", _MAILBOX),
    optional(
        "tags",
        mapped(
            text(pattern=_TAG),
            "10 at most; names that begin with `postlease-` are taken",
            maxProperties=10,
            propertyNames={"type": "string", "pattern": _TAG},
        ),
    ),
    optional("attachments", listed(_ATTACHMENT, "20 at most", maxItems=20)),
)

_SENDING_PROBLEMS = (problems.REQUEST_REFUSED, *KEY_PROBLEMS)

SEND = Operation(
    parameters=(IDEMPOTENCY_KEY,),
    bodies=(body(*MESSAGE, most_bytes=LARGEST_MESSAGE),),
    replies=(Reply(202, "it will be sent", {"event_id": EVENT_ID}, headers=REPLAYED),),
    problems=_SENDING_PROBLEMS,
)
SEND_BATCH = Operation(
    parameters=(IDEMPOTENCY_KEY,),
    bodies=(
        body(
            Member(
                "messages",
                listed(object_of(*MESSAGE), "all or none are taken", minItems=1, maxItems=100),
            ),
            most_bytes=LARGEST_BATCH,
        ),
    ),
    replies=(
        Reply(
            202,
            "all will be sent; their ids in the same order",
            {"messages": listed({"event_id": EVENT_ID})},
            headers=REPLAYED,
        ),
    ),
    problems=_SENDING_PROBLEMS,
)
UPLOAD = Operation(
    bodies=(
        body(
            Member("filename", _FILENAME),
            optional("content_type", _CONTENT_TYPE),
            Member("size", number("bytes", minimum=0, examples=[5])),
            Member(
                "sha256",
                text(
                    "of the bytes",
                    pattern="^[0-9a-f]{64}$",
                    examples=["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
                ),
            ),
            optional(
                "producer",
                text(
                    "whose message will name it: a role of the database; by default the caller",
                    pattern=f"^[^{_CONTROLS}]{{1,63}}$",
                ),
            ),
        ),
    ),
    replies=(
        Reply(
            201,
            "where to send the bytes, once, with exactly these headers",
            {
                "storage_ref": text("what a message names it by"),
                "upload": {
                    "method": choice("PUT"),
                    "url": text(format="uri"),
                    "headers": mapped(text()),
                    "expires_at": MOMENT,
                },
            },
        ),
    ),
    problems=(problems.REQUEST_REFUSED,),
)
