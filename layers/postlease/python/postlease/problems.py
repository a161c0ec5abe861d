"""What can go wrong, as problem documents (RFC 9457). Pure: errors in, documents out.

A `type` never changes once it is published; titles and details are for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from postlease.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    InvalidInputError,
    LimitError,
    MalformedInputError,
    RefusedInputError,
    TokenError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPE = "urn:postlease:problem:"
_ASK_AGAIN = (
    "Ask for a new one with POST /v1/verifications/resend, for a password with POST"
    " /v1/password-resets."
)
_CODE_INVALID = (
    "This code cannot be used: mistyped, too old, or tried too often. Ask for a new one with POST"
    " /v1/verifications/resend."
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem, or one occurrence of it: then with what was wrong where."""

    status: int
    slug: str
    title: str
    detail: str
    errors: tuple[dict[str, str], ...] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def type(self) -> str:
        """What a program tells it by."""
        return f"{_TYPE}{self.slug}"

    def document(self) -> dict[str, Any]:
        """The members of the problem document."""
        document: dict[str, Any] = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = list(self.errors)
        return document


class ProblemError(Exception):
    """Ends a request with a problem that only the HTTP side can see."""

    def __init__(self, problem: Problem, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.slug)
        self.problem = replace(problem, headers=headers or {})


NOT_FOUND = Problem(404, "not-found", "Not found", "Nothing is served at this path.")
FORBIDDEN = Problem(403, "forbidden", "Not signed", "This API serves signed requests only.")
FORM_OF_ANOTHER_SITE = Problem(
    403,
    "form-of-another-site",
    "Form of another site",
    "A form, or a body without Content-Type, is not taken from pages of another site.",
)
MESSAGE_UNKNOWN = Problem(
    404, "message-unknown", "Unknown message", "There is no message of this id, or not any more."
)
USER_UNKNOWN = Problem(
    404, "user-unknown", "Unknown user", "There is no user of this id, or not any more."
)
SUPPRESSION_UNKNOWN = Problem(
    404, "suppression-unknown", "Unknown suppression", "No such entry is on the list."
)
EVENT_UNKNOWN = Problem(404, "event-unknown", "Unknown event", "There is no event of this id.")
EVENT_GONE = Problem(410, "event-gone", "Event gone", "The event is older than what is kept.")
METHOD_NOT_ALLOWED = Problem(
    405, "method-not-allowed", "Method not allowed", "The Allow header names what this path serves."
)
PAYLOAD_TOO_LARGE = Problem(413, "payload-too-large", "Body too large", "")
UNSUPPORTED_MEDIA_TYPE = Problem(
    415, "unsupported-media-type", "Unsupported media type", "The body must be application/json."
)
TOO_MANY_REQUESTS = Problem(
    429,
    "too-many-requests",
    "Too many requests",
    "Too many requests came from this address. The Retry-After header says how long to wait.",
    headers={"retry-after": "60"},
)
INVALID_REQUEST = Problem(400, "invalid-request", "Unreadable request", "")
INVALID_FIELD = Problem(422, "invalid-field", "Invalid field", "")
REQUEST_REFUSED = Problem(422, "request-refused", "Request refused", "")
UNAVAILABLE = Problem(
    503,
    "unavailable",
    "Not available now",
    "Repeat the request in a few seconds; under an idempotency key it has one effect.",
    headers={"retry-after": "2"},
)
INTERNAL_ERROR = Problem(500, "internal-error", "Internal error", "The request failed on our side.")

TOKEN_INVALID = Problem(400, "token-invalid", "Not a valid token", "This is not a token of ours.")
TOKEN_EXPIRED = Problem(410, "token-expired", "Token expired", f"The link is too old. {_ASK_AGAIN}")
TOKEN_SUPERSEDED = Problem(
    410,
    "token-superseded",
    "Token superseded",
    f"A newer link was sent; only the newest works. {_ASK_AGAIN}",
)
TOKEN_USED = Problem(410, "token-used", "Token used", "The link was used before.")

IDEMPOTENCY_KEY_REUSED = Problem(
    422, "idempotency-key-reused", "Idempotency-Key reused", "Use a new key for a new request."
)
IDEMPOTENCY_KEY_IN_PROGRESS = Problem(
    409,
    "idempotency-key-in-progress",
    "Request in progress",
    "A request with this key is still running. Repeat it to get its answer.",
    headers={"retry-after": "1"},
)

ADDRESS_TAKEN = Problem(
    409, "address-taken", "Address taken", "Another account has this address already."
)

# What stands against it is told with the error.
MESSAGE_NOT_FAILED = Problem(409, "message-not-failed", "Conflict", "")
MESSAGE_REDACTED = Problem(409, "message-redacted", "Conflict", "")
MESSAGE_SUPERSEDED = Problem(409, "message-superseded", "Conflict", "")
MESSAGE_EXPIRED = Problem(409, "message-expired", "Conflict", "")
MESSAGE_STILL_OPEN = Problem(409, "message-still-open", "Conflict", "")
MESSAGE_NOT_UNKNOWN = Problem(409, "message-not-unknown", "Conflict", "")
MESSAGE_NOT_PENDING = Problem(409, "message-not-pending", "Conflict", "")

_TOKENS = {
    problem.slug: problem
    for problem in (TOKEN_INVALID, TOKEN_EXPIRED, TOKEN_SUPERSEDED, TOKEN_USED)
}
_CONFLICTS = {
    problem.slug: problem
    for problem in (IDEMPOTENCY_KEY_REUSED, IDEMPOTENCY_KEY_IN_PROGRESS, ADDRESS_TAKEN)
}


_INPUT: Mapping[type[InvalidInputError], Problem] = {
    MalformedInputError: INVALID_REQUEST,
    RefusedInputError: REQUEST_REFUSED,
}


def too_large(most: int) -> Problem:
    """PAYLOAD_TOO_LARGE where a body may have so many bytes."""
    return replace(PAYLOAD_TOO_LARGE, detail=f"A body may have at most {most // 1024} kB.")


def explain(error: Exception) -> Problem:
    """The problem that error is for the caller. What we did not foresee is INTERNAL_ERROR."""
    match error:
        case ProblemError():
            return error.problem
        case InvalidInputError():
            return _at(_INPUT.get(type(error), INVALID_FIELD), error)
        case LimitError():
            return replace(TOO_MANY_REQUESTS, headers={"retry-after": str(error.seconds)})
        case TokenError(is_typed=True):
            return replace(_TOKENS[error.code], detail=_CODE_INVALID)
        case TokenError():
            return _TOKENS[error.code]
        case ConflictError():
            return _conflict(error)
        case UnavailableError():
            return UNAVAILABLE
        case _:
            return INTERNAL_ERROR


def reason(error: Exception) -> str | None:
    """The error's own words, if its kind promises that they hold no value."""
    trusted = (ConfigurationError, UnavailableError, DatabaseError)
    return str(error) if isinstance(error, trusted) else None


def _conflict(error: ConflictError) -> Problem:
    problem = _CONFLICTS.get(error.code) or Problem(409, error.code, "Conflict", error.detail)
    if error.pointer is None:
        return problem
    place = {**_place(error.pointer), "detail": error.detail}
    return replace(problem, detail=error.detail, errors=(place,))


def _at(problem: Problem, error: InvalidInputError) -> Problem:
    """problem with its places: JSON pointers into the body as URI fragments, or a parameter."""
    faults = ((error.pointer, error.detail), *error.others)
    named = error.pointer.removeprefix("/") or "body"
    return replace(
        problem,
        detail=f"{named}: {error.detail}",
        errors=tuple({**_place(pointer), "detail": detail} for pointer, detail in faults),
    )


def _place(pointer: str) -> dict[str, str]:
    in_body = pointer == "" or pointer.startswith("/")
    return {"pointer": f"#{pointer}"} if in_body else {"parameter": pointer}
