"""The API for signed callers: messages found, retried, resolved; resets; accounts changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import accounts, config, database, messages, problems, wire
from postlease.http import Answer, Request, Router
from postlease.operations import Member, Operation, Reply, body, choice, listed, text
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

settings = config.settings()  # what is missing stops the function here, by the variable's name

routes = Router(is_signed=True)


@routes.get(
    "/v1/messages",
    Operation(
        parameters=wire.SEARCH,
        replies=(
            Reply(
                200,
                "a page of them; `cursor` asks for the next one and is null at the end",
                {"messages": listed(wire.MESSAGE), "cursor": text().or_null()},
            ),
        ),
    ),
)
def search(request: Request) -> Answer:
    """Messages, newest first, a page at a time."""
    page = messages.search(database.application(), request.parameters())
    _log("messages searched", request, found=len(page.messages))
    return Answer(200, {"messages": page.messages, "cursor": page.cursor})


@routes.get(
    "/v1/messages/{id}",
    Operation(
        parameters=(wire.MESSAGE_ID,),
        replies=(Reply(200, "the message", wire.MESSAGE_IN_FULL),),
        problems=(problems.MESSAGE_UNKNOWN,),
    ),
)
def find(request: Request) -> Answer:
    """One message and the history of its attempts."""
    found = messages.find(database.application(), request.path_parameters["id"])
    return _told("message read", request, found)


@routes.post(
    "/v1/messages/{id}/retry",
    Operation(
        parameters=(wire.MESSAGE_ID,),
        replies=(Reply(200, "it is pending again", wire.MESSAGE_IN_FULL),),
        problems=(
            problems.MESSAGE_UNKNOWN,
            problems.MESSAGE_NOT_FAILED,
            problems.MESSAGE_REDACTED,
            problems.MESSAGE_SUPERSEDED,
            problems.MESSAGE_EXPIRED,
        ),
    ),
)
def retry(request: Request) -> Answer:
    """A failed message, once more."""
    retried = messages.retry(database.application(), request.path_parameters["id"])
    return _told("message retried", request, retried)


@routes.post(
    "/v1/messages/{id}/resolve",
    Operation(
        parameters=(wire.MESSAGE_ID,),
        bodies=(body(Member("as", choice("sent", "failed"))),),
        replies=(Reply(200, "it is what the caller says", wire.MESSAGE_IN_FULL),),
        problems=(
            problems.MESSAGE_UNKNOWN,
            problems.MESSAGE_STILL_OPEN,
            problems.MESSAGE_NOT_UNKNOWN,
        ),
    ),
)
def resolve(request: Request) -> Answer:
    """An unknown outcome, settled by somebody who knows."""
    as_ = request.fields()["as"]
    resolved = messages.resolve(
        database.application(),
        request.path_parameters["id"],
        as_=as_,
        grace=settings.times.unknown_grace,
    )
    return _told("message resolved", request, resolved, resolved_as=as_)


@routes.post(
    "/v1/password-resets/redeem",
    Operation(
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
    ),
)
def redeem_reset(request: Request) -> Answer:
    """A reset's token, redeemed once; the password is the caller's to set."""
    redeemed = accounts.redeem_reset(
        database.application(),
        token=request.fields()["token"],
        idempotency_key=request.header("idempotency-key"),
        principal=str(request.principal),
    )
    _log("reset redeemed", request, user_id=str(redeemed.user_id))
    return Answer(
        200,
        {"user_id": str(redeemed.user_id)},
        headers={"idempotent-replayed": "true"} if redeemed.replayed else {},
    )


@routes.patch(
    "/v1/users/{id}",
    Operation(
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
    ),
)
def change_user(request: Request) -> Answer:
    """Another address: not verified yet, and every link that was sent to the old one ends."""
    changed = accounts.change_address(
        database.application(), request.path_parameters["id"], email=request.fields()["email"]
    )
    if changed is None:
        raise problems.ProblemError(problems.USER_UNKNOWN)
    _log("address changed", request, user_id=str(changed.user_id), event_id=changed.event_id)
    return Answer(
        200, {"user_id": str(changed.user_id), "verification": {"event_id": changed.event_id}}
    )


@routes.delete(
    "/v1/users/{id}",
    Operation(
        parameters=(wire.USER_ID,),
        replies=(Reply(204, "it is gone, with every link that was sent to it"),),
        problems=(problems.USER_UNKNOWN,),
    ),
)
def close_user(request: Request) -> Answer:
    """The account closed."""
    if not accounts.close(database.application(), request.path_parameters["id"]):
        raise problems.ProblemError(problems.USER_UNKNOWN)
    _log("account closed", request, user_id=request.path_parameters["id"])
    return Answer(204)


@routes.post(
    "/v1/users/{id}/revoke-tokens",
    Operation(
        parameters=(wire.USER_ID,),
        replies=(Reply(200, "no reset that was asked for works any more", {"user_id": wire.ID}),),
        problems=(problems.USER_UNKNOWN,),
    ),
)
def revoke_tokens(request: Request) -> Answer:
    """The password was changed otherwise: the links of its resets end."""
    user_id = accounts.revoke_resets(database.application(), request.path_parameters["id"])
    if user_id is None:
        raise problems.ProblemError(problems.USER_UNKNOWN)
    _log("tokens revoked", request, user_id=str(user_id))
    return Answer(200, {"user_id": str(user_id)})


def _told(text: str, request: Request, found: dict[str, Any] | None, **fields: str) -> Answer:
    if found is None:
        raise problems.ProblemError(problems.MESSAGE_UNKNOWN)
    _log(text, request, event_id=found["event_id"], **fields)
    return Answer(200, found)


def _log(text: str, request: Request, **fields: object) -> None:
    """Who did what: ids, and the caller as an account with a user or role."""
    who: dict[str, object] = {
        "principal": request.principal,
        "correlation_id": request.correlation_id,
    }
    logger.info(text, extra=who | fields)


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Lambda's entry: one HTTP request, one answer."""
    return routes(event)
