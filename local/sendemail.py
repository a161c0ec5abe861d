"""The body of an SES v2 SendEmail call with raw content: parsed strictly, or refused by field."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import Any

_RECIPIENT_LIMIT = 50
_SIZE_LIMIT = 40 * 1024 * 1024
_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_ADDRESS = re.compile(r"[^\s@<>]+@[^\s@<>]+|[^<>\r\n]*<[^\s@<>]+@[^\s@<>]+>")
_DESTINATION = ("ToAddresses", "CcAddresses", "BccAddresses")


class InvalidFieldError(Exception):
    """A field of the call is not as SES wants it; the text begins with its name."""


@dataclass(frozen=True, slots=True)
class SendEmail:
    """One call. content is the RFC 5322 message; body is the call's own JSON."""

    sender: str = field(repr=False)
    to: tuple[str, ...] = field(repr=False)
    cc: tuple[str, ...] = field(repr=False)
    bcc: tuple[str, ...] = field(repr=False)
    content: bytes = field(repr=False)
    body: dict[str, Any] = field(repr=False)


def parse_send_email(body: bytes) -> SendEmail:
    """The call in body; InvalidFieldError names the first field at fault."""
    try:
        call = json.loads(body)
    except ValueError:
        raise InvalidFieldError("body: not JSON") from None
    if not isinstance(call, dict):
        raise InvalidFieldError("body: not an object")
    sender = call.get("FromEmailAddress")
    if not isinstance(sender, str) or not _ADDRESS.fullmatch(sender):
        raise InvalidFieldError("FromEmailAddress: not an address")
    to, cc, bcc = _destination(call.get("Destination"))
    _check_tags(call.get("EmailTags", []))
    return SendEmail(sender, to, cc, bcc, _content(call.get("Content")), call)


def _destination(given: Any) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    if not isinstance(given, dict):
        raise InvalidFieldError("Destination: missing")
    lists = []
    for name in _DESTINATION:
        addresses = given.get(name) or []
        if not isinstance(addresses, list):
            raise InvalidFieldError(f"Destination.{name}: not a list")
        for address in addresses:
            if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
                raise InvalidFieldError(f"Destination.{name}: not an address")
            if not address.isascii():
                raise InvalidFieldError(f"Destination.{name}: not ASCII")
        lists.append(tuple(addresses))
    count = sum(len(addresses) for addresses in lists)
    if not 1 <= count <= _RECIPIENT_LIMIT:
        raise InvalidFieldError(f"Destination: {count} recipients, 1 to {_RECIPIENT_LIMIT} allowed")
    return lists[0], lists[1], lists[2]


def _content(given: Any) -> bytes:
    raw = given.get("Raw") if isinstance(given, dict) else None
    data = raw.get("Data") if isinstance(raw, dict) else None
    if not isinstance(data, str) or not data:
        raise InvalidFieldError("Content.Raw.Data: missing")
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidFieldError("Content.Raw.Data: not base64") from None
    # The limit is the message's, whose parts are base64 already; not that of the call around it.
    if len(content) > _SIZE_LIMIT:
        raise InvalidFieldError("Content.Raw.Data: larger than 40 MB")
    if not re.match(rb"[!-9;-~]+:", content):
        raise InvalidFieldError("Content.Raw.Data: does not begin with a header")
    return content


def _check_tags(given: Any) -> None:
    if not isinstance(given, list):
        raise InvalidFieldError("EmailTags: not a list")
    for tag in given:
        for name in ("Name", "Value"):
            value = tag.get(name) if isinstance(tag, dict) else None
            if not isinstance(value, str) or not _TAG.fullmatch(value):
                raise InvalidFieldError(f"EmailTags.{name}: letters, digits, _ and - alone")
