"""The API for signed callers: messages, suppressions, gates, resets, accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import accounts, config, database, messages, problems
from postlease.http import Answer, Request, Router
from postlease.telemetry import logger
from postlease.wire import accounts as on_accounts
from postlease.wire import gates as on_gates
from postlease.wire import messages as on_messages
from postlease.wire import sending as on_sending
from postlease.wire import suppressing as on_suppressions

if TYPE_CHECKING:
    from collections.abc import Mapping

settings = config.settings()  # what is missing stops the function here, by the variable's name

routes = Router(is_signed=True)


@routes.post("/v1/messages", on_sending.SEND)
def send_message(request: Request) -> Answer:
    """One mail asked for, to be sent at once or later."""
    sent = messages.send(
        database.application(),
        request.document(),
        producer=str(request.principal),
        idempotency_key=request.header("idempotency-key"),
    )
    _log("message taken", request, event_id=sent.response["event_id"], replayed=sent.replayed)
    return Answer(202, sent.response, headers=_replayed(sent.replayed))


@routes.post("/v1/messages/batch", on_sending.SEND_BATCH)
def send_messages(request: Request) -> Answer:
    """Up to 100 mails asked for: all of them are taken, or none."""
    sent = messages.send_batch(
        database.application(),
        request.document(),
        producer=str(request.principal),
        idempotency_key=request.header("idempotency-key"),
    )
    ids = [one["event_id"] for one in sent.response["messages"]]
    _log("messages taken", request, event_ids=ids, replayed=sent.replayed)
    return Answer(202, sent.response, headers=_replayed(sent.replayed))


@routes.post("/v1/messages/retry", on_messages.RETRY_MANY)
def retry_messages(request: Request) -> Answer:
    """Failed messages counted and, with `confirm`, sent once more, the oldest 1000 at a time.

    What could not be retried one by one is not among them.
    """
    asked = request.document()
    done = messages.retry_many(database.application(), asked)
    _log("messages retried", request, reason=asked["reason"], retried=done.retried, left=done.left)
    return Answer(200, {"confirmed": done.confirmed, "retried": done.retried, "left": done.left})


@routes.get("/v1/messages", on_messages.SEARCH_MESSAGES)
def search(request: Request) -> Answer:
    """Messages, newest first, a page at a time."""
    page = messages.search(database.application(), request.parameters())
    _log("messages searched", request, found=len(page.messages))
    return Answer(200, {"messages": page.messages, "cursor": page.cursor})


@routes.get("/v1/messages/{id}", on_messages.FIND)
def find(request: Request) -> Answer:
    """One message and the history of its attempts."""
    found = messages.find(database.application(), request.path_parameters["id"])
    return _told("message read", request, found)


@routes.get("/v1/messages/{id}/recipients", on_messages.RECIPIENTS)
def recipients(request: Request) -> Answer:
    """Who gets a message: whole addresses and names, and the names of its attachments.

    Who may not know them may be forbidden this path alone; who looked is in the log.
    """
    found = messages.recipients(database.application(), request.path_parameters["id"])
    return _told("recipients read", request, found)


@routes.post("/v1/messages/{id}/retry", on_messages.RETRY)
def retry(request: Request) -> Answer:
    """A failed message, once more."""
    retried = messages.retry(database.application(), request.path_parameters["id"])
    return _told("message retried", request, retried)


@routes.post("/v1/messages/{id}/cancel", on_messages.CANCEL)
def cancel(request: Request) -> Answer:
    """A message that nobody is sending yet, called back."""
    cancelled = messages.cancel(database.application(), request.path_parameters["id"])
    return _told("message cancelled", request, cancelled)


@routes.post("/v1/messages/{id}/resolve", on_messages.RESOLVE)
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


@routes.get("/v1/stats", on_messages.STATS)
def stats(request: Request) -> Answer:
    """How much waits, how long, what is unknown, and how the last day's messages ended."""
    counted = messages.stats(database.application())
    _log("stats read", request)
    return Answer(200, counted)


@routes.post("/v1/attachments", on_sending.UPLOAD)
def upload(request: Request) -> Answer:
    """A place to upload one attachment to, for fifteen minutes.

    Whoever has the URL can bring exactly the bytes that were announced, and nothing else.
    """
    place = messages.upload(request.document(), principal=str(request.principal))
    _log("upload signed", request)
    return Answer(201, place)


@routes.get("/v1/suppressions", on_suppressions.SEARCH)
def search_suppressions(request: Request) -> Answer:
    """Whom no mail is sent to, and why, a page at a time."""
    page = messages.search_suppressions(database.application(), request.parameters())
    _log("suppressions searched", request, found=len(page.suppressions))
    return Answer(200, {"suppressions": page.suppressions, "cursor": page.cursor})


@routes.put("/v1/suppressions", on_suppressions.PUT)
def suppress(request: Request) -> Answer:
    """No mail to this address from now on, until a time or until the entry is deleted."""
    entry = messages.put_suppression(database.application(), request.document())
    _log("address suppressed", request, suppression=_short(str(entry["id"])))
    return Answer(200, entry)


@routes.post("/v1/suppressions/lookup", on_suppressions.LOOK_UP)
def look_up_suppressions(request: Request) -> Answer:
    """An address's entries in the list."""
    email = request.fields()["email"]
    found = messages.look_up_suppressions(database.application(), email)
    _log("suppressions looked up", request, suppression=_short(found["id"]))
    return Answer(200, found)


@routes.delete("/v1/suppressions/{id}", on_suppressions.DELETE)
def delete_suppression(request: Request) -> Answer:
    """An address off the list, for one reason or for all."""
    wire_id = request.path_parameters["id"]
    if not messages.delete_suppression(database.application(), wire_id, request.parameters()):
        raise problems.ProblemError(problems.SUPPRESSION_UNKNOWN)
    _log("address no longer suppressed", request, suppression=_short(wire_id))
    return Answer(204)


@routes.get("/v1/gates", on_gates.SEARCH)
def gates(request: Request) -> Answer:
    """Whether mail may leave, by each provider; why not, since when, by whose word."""
    found = messages.gates(database.application())
    _log("gates read", request)
    return Answer(200, {"gates": found})


@routes.get("/v1/gates/{provider}", on_gates.FIND)
def find_gate(request: Request) -> Answer:
    """One provider's gate."""
    found = messages.find_gate(database.application(), request.path_parameters["provider"])
    _log("gate read", request, provider=found["provider"])
    return Answer(200, found)


@routes.put("/v1/gates/{provider}", on_gates.RULE)
def rule_gate(request: Request) -> Answer:
    """No mail to this provider until somebody opens its gate; or mail to it at once."""
    found = messages.rule_gate(
        database.application(),
        request.path_parameters["provider"],
        request.document(),
        principal=str(request.principal),
    )
    _log("gate ruled", request, provider=found["provider"], gate=found["state"])
    return Answer(200, found)


@routes.post("/v1/password-resets/redeem", on_accounts.REDEEM_RESET)
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
        headers=_replayed(redeemed.replayed),
    )


@routes.patch("/v1/users/{id}", on_accounts.CHANGE_USER)
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


@routes.delete("/v1/users/{id}", on_accounts.CLOSE_USER)
def close_user(request: Request) -> Answer:
    """The account closed."""
    if not accounts.close(database.application(), request.path_parameters["id"]):
        raise problems.ProblemError(problems.USER_UNKNOWN)
    _log("account closed", request, user_id=request.path_parameters["id"])
    return Answer(204)


@routes.post("/v1/users/{id}/revoke-tokens", on_accounts.REVOKE_TOKENS)
def revoke_tokens(request: Request) -> Answer:
    """The password was changed otherwise: the links of its resets end."""
    user_id = accounts.revoke_resets(database.application(), request.path_parameters["id"])
    if user_id is None:
        raise problems.ProblemError(problems.USER_UNKNOWN)
    _log("tokens revoked", request, user_id=str(user_id))
    return Answer(200, {"user_id": str(user_id)})


def _short(digest: str) -> str:
    """Enough of a digest to find its entry; the whole would look like a token to whoever searches
    logs for one.
    """
    return digest[:16]


def _replayed(replayed: bool) -> dict[str, str]:  # noqa: FBT001
    return {"idempotent-replayed": "true"} if replayed else {}


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
