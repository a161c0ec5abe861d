"""The operations of the suppression list. No address stands in a URL: an entry's id is a digest."""

from __future__ import annotations

from typing import get_args

from postlease import problems, suppression
from postlease.operations import (
    Operation,
    Parameter,
    Reply,
    Shape,
    body,
    choice,
    listed,
    number,
    optional,
    text,
)
from postlease.wire import EMAIL, MOMENT, stated_moment

_ID = text("the address's keyed digest", pattern="^[0-9a-f]{64}$")
_REASON = choice(*get_args(suppression.Reason))
_ENTRY: dict[str, Shape] = {
    "id": _ID,
    "reason": _REASON,
    "created_at": MOMENT,
    "expires_at": MOMENT.or_null(),
}

# 32 bytes of a digest and the first letter of a reason, as base64 writes these three.
_CURSOR = "^[A-Za-z0-9_-]{42}[BFJNRVZdhlptx159][ijt]$"

SEARCH = Operation(
    parameters=(
        Parameter("query", "reason", _REASON),
        Parameter("query", "cursor", text("from the page before", pattern=_CURSOR)),
        Parameter("query", "limit", number(minimum=1, maximum=100, default=50)),
    ),
    replies=(
        Reply(
            200,
            "a page of them; `cursor` asks for the next one and is null at the end",
            {"suppressions": listed(_ENTRY), "cursor": text().or_null()},
        ),
    ),
)
PUT = Operation(
    bodies=(
        body(
            EMAIL,
            optional("expires_at", stated_moment()),
        ),
    ),
    replies=(Reply(200, "the operator's entry, as it is now", _ENTRY),),
    problems=(problems.REQUEST_REFUSED,),
)
LOOK_UP = Operation(
    bodies=(body(EMAIL),),
    replies=(
        Reply(
            200,
            "its entries, none if mail may go there",
            {"id": _ID, "suppressions": listed(_ENTRY)},
        ),
    ),
)
DELETE = Operation(
    parameters=(Parameter("path", "id", _ID), Parameter("query", "reason", _REASON)),
    replies=(Reply(204, "it is off the list"),),
    problems=(problems.SUPPRESSION_UNKNOWN,),
)
