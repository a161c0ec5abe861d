"""Sign up, verify, ask again, reset, look: the public HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postlease import accounts, config, database, pages, problems, wire

# Most requests need these: loaded with the function. What else `accounts` has waits for its use.
from postlease.accounts import admitting, signing_up, verifying
from postlease.http import Answer, Request, Router
from postlease.operations import FORM, HTML, Operation, Parameter, Reply, Value, body, choice, text
from postlease.telemetry import logger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

config.settings()  # what is missing stops the function here, by the variable's name


def _admit(request: Request) -> None:
    admitting.admit(database.application(), client=request.client)


def _signed() -> Mapping[str, Sequence[str]]:
    return pages.reference.signed()


routes = Router(signed=_signed, admit=_admit)


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
        problems=(*wire.KEY_PROBLEMS, problems.TOO_MANY_REQUESTS),
    ),
)
def sign_up(request: Request) -> Answer:
    """An account and the mail that proves its address."""
    fields = request.fields()
    answer = signing_up.sign_up(
        database.application(),
        email=fields["email"],
        locale=fields.get("locale"),
        idempotency_key=request.header("idempotency-key"),
    )
    _log("sign-up accepted", request, event_id=answer.event_id, user_id=str(answer.user_id))
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
        bodies=(body(wire.TOKEN), body(wire.EMAIL, wire.CODE)),
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
        problems=(
            problems.TOKEN_INVALID,
            problems.TOKEN_EXPIRED,
            problems.TOKEN_SUPERSEDED,
            problems.TOO_MANY_REQUESTS,
        ),
    ),
)
def verify(request: Request) -> Answer:
    """A token from a mail, redeemed; or the mail's code, with the address that it was sent to."""
    fields = request.fields()
    if "code" in fields:
        verified = accounts.try_code(
            database.application(), email=fields["email"], code=fields["code"]
        )
    else:
        verified = verifying.verify(database.application(), token=fields["token"])
    _log("address verified", request, user_id=str(verified.user_id))
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
        problems=(problems.TOO_MANY_REQUESTS,),
    ),
)
def resend(request: Request) -> Answer:
    """The mail again; the answer does not tell whether there is an account."""
    email = request.fields()["email"]
    event = signing_up.resend_verification(database.application(), email=email)
    _log("resend accepted", request, event_id=event)
    return Answer(202, {"status": "accepted"})


@routes.post(
    "/v1/password-resets",
    Operation(
        bodies=(body(wire.EMAIL),),
        replies=(Reply(202, "the same for every address", {"status": choice("accepted")}),),
        problems=(problems.NOT_FOUND, problems.TOO_MANY_REQUESTS),
    ),
)
def request_reset(request: Request) -> Answer:
    """A mail with which its reader may choose a new password, where resets are on."""
    if config.settings().reset_url is None:
        raise problems.ProblemError(problems.NOT_FOUND)
    email = request.fields()["email"]
    event = accounts.request_reset(database.application(), email=email)
    _log("reset accepted", request, event_id=event)
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


def _log(text: str, request: Request, **ids: str) -> None:
    """One line for what a request did: it leads from the request to its mail, and so to the call
    of the provider that names the same event.
    """
    logger.info(text, extra={"correlation_id": request.correlation_id, **ids})


def _onward(request: Request) -> str | None:
    """Where a person goes after verifying: the page asked for if it is listed, else the first."""
    listed = config.settings().verify_redirect_urls
    wanted = request.parameter("redirect")
    return wanted if wanted in listed else next(iter(listed), None)


def _show(page: pages.Page, status: int = 200, /, **headers: str) -> Answer:
    return Answer(status, page.html, headers={**page.headers, **headers}, media_type=HTML)


def _refusal(problem: problems.Problem, request: Request) -> Answer | None:
    """The page for a person whose form a problem stands against."""
    page = pages.refused(
        problem.slug,
        request.header("accept-language"),
        onward=_onward(request),
        with_codes=config.settings().verify_codes,
        # Only what could be read gets so far.
        of_link=problem.slug == "token-invalid" and "link" in request.fields(),
    )
    return _show(page, problem.status, **problem.headers) if page else None


@routes.get(
    "/verify",
    Operation(
        parameters=(wire.REDIRECT, wire.ACCEPT_LANGUAGE),
        replies=(wire.page(200, "looking at it changes nothing"),),
        is_static=True,
    ),
)
def verify_page(request: Request) -> Answer:
    """The page that a mail's link opens."""
    # The token is in the fragment, which no server sees.
    page = pages.verify(
        request.header("accept-language"),
        onward=_onward(request),
        with_codes=config.settings().verify_codes,
    )
    return _show(page)


@routes.post(
    "/verify",
    Operation(
        bodies=(
            body(wire.LINK, media_type=FORM),
            body(wire.EMAIL, wire.CODE, media_type=FORM),
        ),
        parameters=(wire.REDIRECT, wire.ACCEPT_LANGUAGE),
        replies=(
            wire.page(200, "the address is proven; the same on every repeat"),
            wire.page(303, "the same, where people are sent on", location=wire.ONWARD),
            wire.page(400, "`token-invalid`"),
            wire.page(410, "`token-expired` or `token-superseded`"),
            wire.page(422, "`invalid-field`"),
            wire.page(429, "`too-many-requests`"),
            wire.page(429, "`too-many-requests`"),
            wire.page(500, "`internal-error`"),
            wire.page(503, "`unavailable`"),
        ),
    ),
    show=_refusal,
)
def verify_form(request: Request) -> Answer:
    """The form of that page, for browsers without JavaScript; answered by a page."""
    fields = request.fields()
    if "code" in fields:
        verified = accounts.try_code(
            database.application(), email=fields["email"], code=fields["code"]
        )
    else:
        token = pages.token_in(fields["link"])
        verified = verifying.verify(database.application(), token=token)
    _log("address verified", request, user_id=str(verified.user_id))
    onward = _onward(request)
    page = pages.verified(request.header("accept-language"), onward=onward)
    return _show(page, 303, location=onward) if onward else _show(page)


@routes.get(
    "/reset",
    Operation(
        parameters=(wire.ACCEPT_LANGUAGE,),
        replies=(wire.page(200, "it redeems nothing"),),
        problems=(problems.NOT_FOUND,),
        is_static=True,
    ),
)
def reset_page(request: Request) -> Answer:
    """The page that hands a reset's token on to the application, where resets are on."""
    application = config.settings().reset_url
    if application is None:
        raise problems.ProblemError(problems.NOT_FOUND)
    return _show(pages.reset(request.header("accept-language"), page=application))


@routes.get(
    "/openapi.json",
    Operation(
        replies=(Reply(200, "an OpenAPI 3.1 document", Value({"type": "object"})),), is_static=True
    ),
)
def openapi(request: Request) -> Answer:
    """The description of this API."""
    del request
    return Answer(200, pages.reference.openapi())


@routes.get("/docs", Operation(replies=(Reply(200, "a page", text(), HTML),), is_static=True))
def docs(request: Request) -> Answer:
    """The same description, as a page to read."""
    del request
    page = pages.reference.page()
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
