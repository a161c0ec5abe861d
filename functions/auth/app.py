"""Sign up, verify, ask again, look: the public HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import accounts, config, database, pages, problems
from postlease.http import Answer, Request, Router
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

config.settings()  # what is missing stops the function here, by the variable's name

routes = Router()


@routes.post("/v1/signups")
def sign_up(request: Request) -> Answer:
    """An account and the mail that proves its address."""
    fields = request.fields(required=("email",), optional=("locale",))
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


@routes.post("/v1/verifications")
def verify(request: Request) -> Answer:
    """A token from a mail, redeemed."""
    token = request.fields(required=("token",))["token"]
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


@routes.post("/v1/verifications/resend")
def resend(request: Request) -> Answer:
    """The mail again; the answer does not tell whether there is an account."""
    email = request.fields(required=("email",))["email"]
    accounts.resend_verification(database.application(), email=email)
    return Answer(202, {"status": "accepted"})


@routes.get("/v1/events/{event_id}")
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


@routes.get("/verify", is_static=True)
def verify_page(request: Request) -> Answer:
    """The page that a mail's link opens."""
    del request  # the token is in the fragment, which no server sees
    page = pages.verify()
    return Answer(200, page.html, headers=page.headers, media_type=pages.MEDIA_TYPE)


@routes.get("/healthz")
def health(request: Request) -> Answer:
    """Whether the database answers."""
    del request
    with database.application().transaction():
        return Answer(200, {"status": "ok"})


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Lambda's entry: one HTTP request, one answer."""
    return routes(event)
