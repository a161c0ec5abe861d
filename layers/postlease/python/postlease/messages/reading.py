"""What stands in a request's path, query and body, read: ids, numbers, moments, cursors."""

from __future__ import annotations

import base64
import contextlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from postlease import outbox
from postlease.errors import InvalidInputError, MalformedInputError
from postlease.model import FailureReason, Status, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.outbox import Wanted

LARGEST_PAGE = 100
DEFAULT_PAGE = 50

_CURSOR = re.compile(r"[A-Za-z0-9_-]{22}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_MOMENT = re.compile(
    r"(?!0000|0001|9999)[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,12})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def message_id(text: str) -> UUID:
    """The id in its wire form, or as the UUID that `postlease.enqueue_email` answers."""
    if _UUID.fullmatch(text):
        return UUID(text)
    found = parse_event_id(text)
    if found is None:
        raise MalformedInputError(
            "id", "must be `evt_` and 26 characters of Crockford base32, or a UUID"
        )
    return found


def wanted(parameters: Mapping[str, str]) -> Wanted:
    """Which messages the parameters of a search ask for."""
    template = parameters.get("template")
    if template is not None and not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", template):
        raise InvalidInputError("template", "must be a template's name")
    behind = parameters.get("cursor")
    return outbox.Wanted(
        status=choice(parameters, "status", get_args(Status)),
        reason=choice(parameters, "reason", get_args(FailureReason)),
        template=template,
        unknown=choice(parameters, "unknown", ("true", "false")) == "true",
        created_from=_moment(parameters, "created_after"),
        created_before=_moment(parameters, "created_before"),
        below=None if behind is None else _position(behind),
    )


def choice(parameters: Mapping[str, str], name: str, allowed: tuple[Any, ...]) -> Any:
    """The parameter, if it is one of the allowed words; None if it is not there."""
    value = parameters.get(name)
    if value is not None and value not in allowed:
        raise InvalidInputError(name, f"must be one of {', '.join(allowed)}")
    return value


def limit(parameters: Mapping[str, str]) -> int:
    """How many a page may hold."""
    text = parameters.get("limit", str(DEFAULT_PAGE))
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= LARGEST_PAGE:
        raise InvalidInputError("limit", f"must be a whole number from 1 to {LARGEST_PAGE}")
    return int(text)


def _moment(parameters: Mapping[str, str], name: str) -> datetime | None:
    text = parameters.get(name)
    return None if text is None else stated_moment(text, pointer=name)


def stated_moment(text: str, *, pointer: str) -> datetime:
    """The moment that text names (RFC 3339), in UTC: others take fewer offsets than it has.

    One of the calendar's first or last year is refused: in another zone it may have none.
    """
    with contextlib.suppress(ValueError):
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    raise InvalidInputError(pointer, "must be a time with its offset, such as 2026-03-12T09:30:00Z")


def cursor(last: UUID) -> str:
    """What asks for the page behind this message."""
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def _position(cursor: str) -> UUID:
    if not _CURSOR.fullmatch(cursor):
        raise InvalidInputError("cursor", "is not one of ours")
    return UUID(bytes=base64.urlsafe_b64decode(f"{cursor}=="))
