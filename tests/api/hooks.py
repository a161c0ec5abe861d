"""What schemathesis is told about this API: who signs, what exists, which refusals are fair."""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schemathesis
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import strategies as st
from requests.auth import AuthBase
from schemathesis.openapi.checks import MissingHeaderNotRejected, RejectedPositiveData

from local.runtime import REGION
from local.signatures import ACCESS_KEY, SECRET_KEY, SIGNING_NAME
from tests.api.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests import PreparedRequest

POOL, COUNTS = "API_POOL", "API_COUNTS"

# The refusals that say how a request is written; every other one says what it is about.
OF_FORM = {"invalid-request", "invalid-field", "unsupported-media-type", "payload-too-large"}

counts: Counter[tuple[str, int, str]] = Counter()
"""Answers by operation, status and problem."""
_lock = threading.Lock()
pool = Pool.read(Path(os.environ[POOL])) if POOL in os.environ else Pool()

# Every one of these is acceptable; what is not, is generated against the description.
schemathesis.openapi.format(
    "email",
    st.from_regex(
        r"[a-z0-9]{1,12}([.+_-][A-Za-z0-9]{1,8})?@[a-z]{2,10}\.(example|test)", fullmatch=True
    ),
)


class Signature(AuthBase):
    """Signs a request as it leaves."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the signature's headers."""
        names = ("content-type", "host")
        kept = {name: value for name, value in request.headers.items() if name.lower() in names}
        signed = AWSRequest(request.method, request.url, headers=kept, data=request.body)
        SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), SIGNING_NAME, REGION).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return request


schemathesis.auth.set_from_requests(Signature()).apply_to(tag="signed")


KINDS: dict[str, dict[tuple[str, str], str]] = {
    "POST /v1/verifications": {("body", "token"): "tokens", ("body", "code"): "codes"},
    "POST /v1/verifications/resend": {("body", "email"): "addresses"},
    "POST /v1/password-resets": {("body", "email"): "addresses"},
    "GET /v1/events/{event_id}": {("path", "event_id"): "events"},
    "POST /verify": {("body", "link"): "links", ("body", "code"): "codes"},
    "GET /v1/messages/{id}": {("path", "id"): "messages"},
    "GET /v1/messages/{id}/recipients": {("path", "id"): "messages"},
    "POST /v1/messages/{id}/cancel": {("path", "id"): "pending"},
    "POST /v1/messages/{id}/retry": {("path", "id"): "failed"},
    "POST /v1/messages/{id}/resolve": {("path", "id"): "unknown"},
    "POST /v1/password-resets/redeem": {("body", "token"): "resets"},
    "PATCH /v1/users/{id}": {("path", "id"): "users", ("body", "email"): "fresh"},
    "POST /v1/users/{id}/revoke-tokens": {("path", "id"): "users"},
    "DELETE /v1/users/{id}": {("path", "id"): "closing"},
    "DELETE /v1/suppressions/{id}": {("path", "id"): "suppressed"},
}
"""What each place of an operation's requests names, by kind of thing in the pool."""


RECEIPT = {
    "template": "receipt",
    "to": ["ada@example.com", {"email": "grace@example.com", "name": "Grace Hopper"}],
    "parameters": {"order_number": "A-1001", "total": "12.00"},
}
# What must fit to the deployment or to the rest of the message, which no description can say.
_FITTING = ("cc", "bcc", "from", "expires_at", "attachments", "idempotency_key")


def _message(drawn: Any) -> dict[str, Any]:
    """A message that is taken, with what else was drawn for it."""
    kept = drawn if isinstance(drawn, dict) else {}
    return {name: value for name, value in kept.items() if name not in _FITTING} | RECEIPT


WHOLE: dict[str, Callable[[Any], Any]] = {
    "POST /v1/messages": _message,
    "POST /v1/messages/batch": lambda drawn: {
        "messages": [_message(one) for one in drawn.get("messages") or [{}]]
    },
}
"""Bodies whose members must fit together, made so."""


def plain(value: Any) -> Any:
    """The value without what JSON can say and no body may hold, at any depth."""
    match value:
        case str():
            return value.replace("\0", "")
        case bool() | None:
            return value
        case int():
            return max(-(1 << 63), min(value, (1 << 63) - 1))
        case list():
            return [plain(one) for one in value]
        case dict():
            return {plain(name): plain(one) for name, one in value.items()}
        case _:
            return value


def fill(case: Any, things: Pool) -> None:
    """Let the case name things that exist."""
    if case.operation.label in WHOLE and isinstance(case.body, dict):
        case.body = WHOLE[case.operation.label](case.body)
    for (place, name), kind in KINDS.get(case.operation.label, {}).items():
        if place == "path":
            case.path_parameters[name] = things.take(kind)
        elif isinstance(case.body, dict) and name in case.body and things.things[kind]:
            case.body = case.body | _members(name, things.take(kind))


def _members(name: str, thing: str) -> dict[str, str]:
    """The members that say a thing; a code is no code without its address."""
    if name != "code":
        return {name: thing}
    code, email = thing.split(" ")
    return {"code": code, "email": email}


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Three of four positive cases name things that exist."""
    meta = case.meta
    if meta is not None and meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body = plain(case.body)
        if case.operation.label == "POST /v1/messages/retry":
            case.body["template"] = "used_by_nobody"  # what the pool's failed ones are for
    drawn = repr((case.body, case.path_parameters, case.query, case.headers))
    if meta is not None and meta.generation.mode.is_positive and zlib.crc32(drawn.encode()) % 4:
        fill(case, pool)
    return case


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether a failure is one.

    What is written well may still name nothing that exists, and API Gateway answers 403, not 401,
    to whom it does not know.
    """
    if isinstance(failure, MissingHeaderNotRejected):
        return not (failure.header_name == "Authorization" and response.status_code == 403)
    if isinstance(failure, RejectedPositiveData):
        slug = problem(response)
        return slug in OF_FORM or (not slug and response.status_code in {413, 415, 422})
    return True


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Count an answer to the case's operation, whatever method it was sent with."""
    with _lock:
        counts[case.operation.label, response.status_code, problem(response)] += 1


def problem(response: Any) -> str:
    """The slug of the problem that an answer is, or nothing."""
    if response.status_code < 400:
        return ""
    found = re.search(rb'"urn:postlease:problem:([a-z-]+)"', response.content or b"")
    return found[1].decode() if found else ""


@atexit.register
def _write() -> None:
    if COUNTS in os.environ:
        rows = [[*key, number] for key, number in counts.items()]
        Path(os.environ[COUNTS]).write_text(json.dumps(rows))


def example(operation: Any, things: Pool) -> dict[str, Any]:
    """The parts of a request that goes well: the description's examples, and things that exist."""
    raw = operation.definition.raw
    parts: dict[str, Any] = {}
    for parameter in raw.get("parameters", []):
        if parameter["in"] == "path":
            parts.setdefault("path_parameters", {})[parameter["name"]] = None
    for media_type, content in raw.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"].get("oneOf", [content["schema"]])[0]
        members = schema["properties"]
        parts["media_type"] = media_type
        parts["body"] = {
            name: (members[name].get("examples") or members[name].get("enum") or [""])[0]
            for name in schema["required"]
        }
        if operation.label in WHOLE:
            parts["body"] = WHOLE[operation.label]({})
        if operation.label == "POST /v1/messages/retry":
            parts["body"]["template"] = "used_by_nobody"
        break
    for (place, name), kind in KINDS.get(operation.label, {}).items():
        part = parts["path_parameters" if place == "path" else "body"]
        if name in part:
            part |= _members(name, things.take(kind))
    return parts
