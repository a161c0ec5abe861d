"""A request: read out of an API Gateway event (payload format 2.0), its body by its operation.

Where a body is wanted, its media type is looked at (415), where it comes from if any page could
have sent it (403), its size (413), its JSON or form (400) and its members (422), in this order.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from postlease import problems, strict_json
from postlease.errors import InvalidInputError, MalformedInputError
from postlease.faults import Faults
from postlease.http import shapes
from postlease.operations import FORM, JSON, SMALL, Operation, object_of
from postlease.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from postlease.operations import Body

MAXIMUM_BODY_BYTES = SMALL

_MOST_PAIRS = 50
# A user's path may have 512 characters, a producer's name 255: such a user goes by its id.
_LONGEST_NAME = 200
_JSON_TYPE = re.compile(r"application/(json|[a-z0-9!#$&^_.-]+\+json)")
_UTF8 = re.compile(r'charset="?(utf-8|us-ascii)"?')
_NOTHING = Operation(replies=())


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body not read yet. header names are lower case.

    client is the IP address that the gateway saw: no header says who calls. principal is who signed
    it, as API Gateway checked: account and user or role, without the name of a session; None for an
    unsigned request.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    path_parameters: Mapping[str, str]
    body: str | None = field(repr=False)
    is_base64: bool
    correlation_id: str
    query: str = field(default="", repr=False)
    client: str = ""
    principal: str | None = None
    operation: Operation = field(default=_NOTHING, repr=False)

    def header(self, name: str) -> str | None:
        """The value of a header that the operation takes; repeated ones are joined with commas."""
        if name.lower() not in map(str.lower, self.operation.names("header")):
            raise LookupError(f"the operation takes no header {name}")
        return self.stated(name)

    def stated(self, name: str) -> str | None:
        """The value of any header, whatever its case."""
        return self.headers.get(name.lower())

    def parameters(self) -> dict[str, str]:
        """The parameters of the query, decoded.

        Raises MalformedInputError for one that the operation does not take or that stands twice.
        """
        known = self.operation.names("query")
        found: dict[str, str] = {}
        for name, value in _pairs(self.query, place="query"):
            if name not in known:
                raise MalformedInputError(_told(name), "this parameter is not known")
            if name in found:
                raise MalformedInputError(name, "stands twice")
            found[name] = value
        return found

    def parameter(self, name: str) -> str | None:
        """The query's parameter, whatever else the query holds; None also where it stands twice or
        cannot be decoded. For pages: what others hang on to a link breaks no page.
        """
        if name not in self.operation.names("query"):
            raise LookupError(f"the operation takes no parameter {name}")
        try:
            found = [value for key, value in _pairs(self.query, place="query") if key == name]
        except MalformedInputError:
            return None
        return found[0] if len(found) == 1 else None

    def fields(self) -> dict[str, str]:
        """The text members of the body, as one of the operation's bodies wants them.

        Raises ProblemError (403, 413, 415), MalformedInputError for a body that cannot be read or
        has a member that is not known, InvalidInputError for a member that is missing or no text,
        or that belongs to another body than the rest.
        """
        bodies, value = self._read()
        return _members(bodies, value)

    def document(self) -> dict[str, Any]:
        """The body with all that stands in its members, as the operation's one body describes it.

        Optional members may be absent or null. Raises as `fields` does, and tells all faults of the
        body at once, or the first ones.
        """
        [wanted], value = self._read()
        faults = Faults()
        shapes.check(object_of(*wanted.members).schema, value, faults)
        faults.end()
        return value

    def _read(self) -> tuple[Sequence[Body], dict[str, Any]]:
        """The bodies of the media type that came, and the object that this one is."""
        bodies = [body for body in self.operation.bodies if body.media_type == _media_type(self)]
        if not bodies:
            taken = " or ".join(sorted({body.media_type for body in self.operation.bodies}))
            detail = f"The body must be {taken}."
            raise ProblemError(replace(problems.UNSUPPORTED_MEDIA_TYPE, detail=detail))
        if self.stated("sec-fetch-site") == "cross-site" and not _is_preflighted(self):
            raise ProblemError(problems.FORM_OF_ANOTHER_SITE)
        content = _content(self, bodies[0].most_bytes)
        value = _form(content) if bodies[0].media_type == FORM else strict_json.parse(content)
        if not isinstance(value, dict):
            raise MalformedInputError("", "the body must be a JSON object")
        return bodies, value


def read(event: Mapping[str, Any]) -> Request:
    """The request in an event; emulators differ in header case, gateways in stage prefix."""
    context = event.get("requestContext") or {}
    path = str(event.get("rawPath") or "/")
    stage = context.get("stage") or "$default"
    if stage != "$default" and path.startswith(f"/{stage}/"):
        path = path.removeprefix(f"/{stage}")
    headers: dict[str, str] = {}
    for name, value in (event.get("headers") or {}).items():
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known},{value}" if known is not None else str(value)
    return Request(
        method=str((context.get("http") or {}).get("method") or ""),
        path=path,
        headers=headers,
        path_parameters={},
        body=event.get("body"),
        is_base64=bool(event.get("isBase64Encoded")),
        correlation_id=str(context.get("requestId") or ""),
        query=str(event.get("rawQueryString") or ""),
        client=str((context.get("http") or {}).get("sourceIp") or ""),
        principal=_principal((context.get("authorizer") or {}).get("iam") or {}),
    )


def _told(name: str) -> str:
    """A parameter's name, or `query`: for what could be an address or a token, and for what would
    read as a place in the body.
    """
    is_plain = name != "" and name[0] != "/" and strict_json.shown(name) == name
    return name if is_plain else "query"


def _principal(identity: Mapping[str, Any]) -> str | None:
    """`account:user/name`, `account:role/name` or the like, out of who signed."""
    parts = str(identity.get("userArn") or "").split(":", 5)
    if len(parts) != 6 or not parts[4]:
        return None
    kind, _, name = parts[5].partition("/")
    if kind == "assumed-role":
        # Behind the role stands the session, which people name after themselves.
        kind, name = "role", name.partition("/")[0]
    if "@" in name or len(name) > _LONGEST_NAME:
        name = str(identity.get("callerId") or "").partition(":")[0]
    return f"{parts[4]}:{kind}/{name}" if name else f"{parts[4]}:{kind}"


def _media_type(request: Request) -> str | None:
    """JSON, also if nothing is said, or a form; None for what a body cannot be."""
    stated = request.stated("content-type")
    encoding = request.stated("content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        return None
    if stated is None or not stated.strip():
        return JSON
    media_type, *parameters = (part.strip().lower() for part in stated.split(";"))
    charsets = [part for part in parameters if part.startswith("charset=")]
    if not all(map(_UTF8.fullmatch, charsets)):
        return None
    if media_type == FORM:
        return FORM
    return JSON if _JSON_TYPE.fullmatch(media_type) else None


def _is_preflighted(request: Request) -> bool:
    """Whether a browser asks us before it sends this for a page of another origin (Fetch, 4.8).

    It does for a body that is said to be JSON. It does not for a form, nor for a body of which
    nothing is said: `fetch` sends a Blob so, in the mode no-cors.
    """
    return bool((request.stated("content-type") or "").strip()) and _media_type(request) == JSON


def _members(bodies: Sequence[Body], value: Mapping[str, Any]) -> dict[str, str]:
    """The text members of the one body that value is."""
    for name in value:
        if not any(name in body.names for body in bodies):
            raise MalformedInputError(strict_json.child("", name), "this member is not known")
    chosen = _chosen(bodies, value)
    found = {name: inner for name, inner in value.items() if inner is not None}
    for name in chosen.required:
        if name not in found:
            raise InvalidInputError(strict_json.child("", name), "is required")
    for name, inner in found.items():
        if not isinstance(inner, str):
            raise InvalidInputError(strict_json.child("", name), "must be text")
    return found


def _chosen(bodies: Sequence[Body], value: Mapping[str, Any]) -> Body:
    """The first body with room for all members of value."""
    for body in bodies:
        if set(value) <= set(body.names):
            return body
    first = next(body for body in bodies if next(iter(value)) in body.names)
    stray = next(name for name in value if name not in first.names)
    raise InvalidInputError(strict_json.child("", stray), "does not go with the other members")


def _form(content: bytes) -> dict[str, str]:
    """The members of a form (WHATWG URL, 5.1), as strictly as JSON's."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise MalformedInputError("", "the body is not UTF-8") from None
    found: dict[str, str] = {}
    for name, value in _pairs(text, place=""):
        if name in found:
            raise MalformedInputError(strict_json.child("", name), "stands twice")
        if "\0" in value:
            raise MalformedInputError(strict_json.child("", name), "a NUL character is not allowed")
        found[name] = value
    return found


def _pairs(text: str, *, place: str) -> list[tuple[str, str]]:
    """Names and values of a query or form; one that is not UTF-8 is refused, as too many are."""
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PAIRS)
    except ValueError:
        raise MalformedInputError(place, "cannot be decoded") from None


def _content(request: Request, most: int) -> bytes:
    """The body's bytes. The gateway encodes what it does not know to be text as base64."""
    if not request.body:
        if _media_type(request) == FORM:
            return b""  # a form without a field
        raise MalformedInputError("", "a JSON body is required")
    # Whatever stands for more than twice the limit is too much, in base64 too.
    beginning = request.body[: most * 2]
    try:
        if request.is_base64:
            content = base64.b64decode(beginning, validate=True)
        else:
            content = beginning.encode()
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise MalformedInputError("", "the body's encoding is broken") from None
    if len(content) > most or len(beginning) < len(request.body):
        if _media_type(request) == JSON:
            strict_json.check_depth(content[:most])
        raise ProblemError(problems.too_large(most))
    return content
