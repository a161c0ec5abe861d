"""Sign up, verify, ask again, look: the public HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import accounts, config, database, pages, problems, wire
from postlease.http import Answer, Request, Router
from postlease.operations import HTML, Operation, Parameter, Reply, Value, body, choice, text
from postlease.pages import reference
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

config.settings()  # what is missing stops the function here, by the variable's name

routes = Router(signed=reference.signed)


@routes.post(
    "/v1/signups",
    Operation(
        bodies=(body(wire.EMAIL, wire.LOCALE),),
        parameters=(wire.IDEMPOTENCY_KEY,),
        replies=(
            Reply(
                202,
                "the account, new or not, and the mail that is on its way",
                {
                    "user_id": wire.ID,
                    "verification": {"status": wire.EVENT_STATUS, "event_id": wire.EVENT_ID},
                },
                headers=wire.REPLAYED,
            ),
        ),
        problems=wire.KEY_PROBLEMS,
    ),
)
def sign_up(request: Request) -> Answer:
    """An account and the mail that proves its address."""
    fields = request.fields()
    answer = accounts.sign_up(
        database.application(),
        email=fields["email"],
        locale=fields.get("locale"),
        idempotency_key=request.header("idempotency-key"),
    )
    logger.info("sign-up accepted", event_id=answer.event_id, user_id=str(answer.user_id))
    return Answer(
        202,
        {
            "user_id": str(answer.user_id),
            "verification": {"status": answer.status, "event_id": answer.event_id},
        },
        headers={"idempotent-replayed": "true"} if answer.replayed else {},
    )


@routes.post(
    "/v1/verifications",
    Operation(
        bodies=(body(wire.TOKEN),),
        replies=(
            Reply(
                200,
                "the address is proven; the same on every repeat",
                {
                    "status": choice("verified"),
                    "user_id": wire.ID,
                    "verified_at": wire.MOMENT,
                },
            ),
        ),
        problems=(problems.TOKEN_INVALID, problems.TOKEN_EXPIRED, problems.TOKEN_SUPERSEDED),
    ),
)
def verify(request: Request) -> Answer:
    """A token from a mail, redeemed."""
    token = request.fields()["token"]
    verified = accounts.verify(database.application(), token=token)
    logger.info("address verified", user_id=str(verified.user_id))
    return Answer(
        200,
        {
            "status": "verified",
            "user_id": str(verified.user_id),
            "verified_at": verified.verified_at.isoformat(),
        },
    )


@routes.post(
    "/v1/verifications/resend",
    Operation(
        bodies=(body(wire.EMAIL),),
        replies=(Reply(202, "the same for every address", {"status": choice("accepted")}),),
    ),
)
def resend(request: Request) -> Answer:
    """The mail again; the answer does not tell whether there is an account."""
    email = request.fields()["email"]
    accounts.resend_verification(database.application(), email=email)
    return Answer(202, {"status": "accepted"})


@routes.get(
    "/v1/events/{event_id}",
    Operation(
        parameters=(Parameter("path", "event_id", wire.EVENT_ID),),
        replies=(
            Reply(
                200,
                "what became of it",
                {
                    "event_id": wire.EVENT_ID,
                    "status": wire.EVENT_STATUS,
                    "created_at": wire.MOMENT,
                    "sent_at": wire.MOMENT.or_null(),
                    "finished_at": wire.MOMENT.or_null(),
                },
            ),
        ),
        problems=(problems.EVENT_UNKNOWN, problems.EVENT_GONE),
    ),
)
def event_status(request: Request) -> Answer:
    """What became of a mail."""
    found = accounts.event_status(database.application(), request.path_parameters["event_id"])
    if found == "unknown":
        raise problems.ProblemError(problems.EVENT_UNKNOWN)
    if found == "purged":
        raise problems.ProblemError(problems.EVENT_GONE)
    times = {name: getattr(found, name) for name in ("created_at", "sent_at", "finished_at")}
    return Answer(
        200,
        {
            "event_id": found.event_id,
            "status": found.status,
            **{name: time and time.isoformat() for name, time in times.items()},
        },
    )


@routes.get("/verify", Operation(replies=(Reply(200, "a page", text(), HTML),), is_static=True))
def verify_page(request: Request) -> Answer:
    """The page that a mail's link opens."""
    del request  # the token is in the fragment, which no server sees
    page = pages.verify()
    return Answer(200, page.html, headers=page.headers, media_type=HTML)


@routes.get(
    "/openapi.json",
    Operation(
        replies=(Reply(200, "an OpenAPI 3.1 document", Value({"type": "object"})),), is_static=True
    ),
)
def openapi(request: Request) -> Answer:
    """The description of this API."""
    del request
    return Answer(200, reference.openapi())


@routes.get("/docs", Operation(replies=(Reply(200, "a page", text(), HTML),), is_static=True))
def docs(request: Request) -> Answer:
    """The same description, as a page to read."""
    del request
    page = reference.page()
    return Answer(200, page.html, headers=page.headers, media_type=HTML)


@routes.get("/healthz", Operation(replies=(Reply(200, "it does", {"status": choice("ok")}),)))
def health(request: Request) -> Answer:
    """Whether the database answers."""
    del request
    with database.application().transaction():
        return Answer(200, {"status": "ok"})


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Lambda's entry: one HTTP request, one answer."""
    return routes(event)
