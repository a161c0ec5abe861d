"""The operations on accounts for signed callers."""

from __future__ import annotations

from postlease import problems, wire
from postlease.operations import Operation, Reply, body

REDEEM_RESET = Operation(
    bodies=(body(wire.TOKEN),),
    parameters=(wire.IDEMPOTENCY_KEY,),
    replies=(
        Reply(
            200,
            "whose password may be set now",
            {"user_id": wire.ID},
            headers=wire.REPLAYED,
        ),
    ),
    problems=(
        problems.TOKEN_INVALID,
        problems.TOKEN_EXPIRED,
        problems.TOKEN_SUPERSEDED,
        problems.TOKEN_USED,
        *wire.KEY_PROBLEMS,
    ),
)

CHANGE_USER = Operation(
    parameters=(wire.USER_ID,),
    bodies=(body(wire.EMAIL),),
    replies=(
        Reply(
            200,
            "the mail that proves the new address; null if it is the one that was there",
            {"user_id": wire.ID, "verification": {"event_id": wire.EVENT_ID.or_null()}},
        ),
    ),
    problems=(problems.USER_UNKNOWN, problems.ADDRESS_TAKEN),
)

CLOSE_USER = Operation(
    parameters=(wire.USER_ID,),
    replies=(Reply(204, "it is gone, with every link that was sent to it"),),
    problems=(problems.USER_UNKNOWN,),
)

REVOKE_TOKENS = Operation(
    parameters=(wire.USER_ID,),
    replies=(Reply(200, "no reset that was asked for works any more", {"user_id": wire.ID}),),
    problems=(problems.USER_UNKNOWN,),
)
