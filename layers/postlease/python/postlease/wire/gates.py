"""The operations of the gates in front of the providers."""

from __future__ import annotations

from typing import get_args

from postlease.config import PROVIDERS
from postlease.model import GateWord
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
    number,
    text,
)
from postlease.wire import EVENT_ID, MOMENT

_PROVIDER = Parameter("path", "provider", choice(*PROVIDERS))
_RATE = Value(
    {"type": "number", "description": "recipients a second; null: nothing is paced"}
).or_null()
_SAID = text(
    "why, for whoever looks next; no address",
    pattern=(
        r"^(?!\s)[^@\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$"
    ),
    maxLength=200,
    examples=["the relay is being moved"],
)
_GATE: dict[str, Shape] = {
    "provider": choice(*PROVIDERS),
    "in_use": flag("mail goes to this provider"),
    "state": choice(
        *get_args(GateWord),
        note="closed: by the provider's answers, which open it again; paused: by an operator",
    ),
    "reason": text("why it is not open; `operator` for a pause").or_null(),
    "closed_at": MOMENT.or_null(),
    "closed_by": Value(
        {**EVENT_ID.schema, "description": "the mail whose answer closed it"}
    ).or_null(),
    "next_probe_at": MOMENT.or_null(),
    "failures_in_a_row": number("calls that reached nobody", minimum=0),
    "limit_per_second": _RATE,
    "rate_per_second": _RATE,
    "accepted_at": MOMENT.or_null(),
    "ruled_at": MOMENT.or_null(),
    "ruled_by": text("who paused or opened it last").or_null(),
    "ruled_because": text().or_null(),
}

SEARCH = Operation(
    replies=(Reply(200, "all of them, whether in use or not", {"gates": listed(_GATE)}),)
)
FIND = Operation(parameters=(_PROVIDER,), replies=(Reply(200, "the gate", _GATE),))
RULE = Operation(
    parameters=(_PROVIDER,),
    bodies=(
        body(
            Member(
                "state",
                choice("open", "paused", note="a paused gate stays so until somebody opens it"),
            ),
            Member("reason", _SAID),
        ),
    ),
    replies=(Reply(200, "the gate, as it is now", _GATE),),
)
