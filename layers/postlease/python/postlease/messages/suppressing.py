"""The suppression list for services and operators. Answers name an address by its digest alone."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from postlease import addresses, suppression
from postlease.errors import InvalidInputError, MalformedInputError, RefusedInputError
from postlease.messages import ground, reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.database import Database
    from postlease.suppression import Entry

_DIGEST_BYTES = 32
_CURSOR = re.compile("[A-Za-z0-9_-]{44}")
_ID = re.compile("[0-9a-f]{64}")
_REASONS = get_args(suppression.Reason)
_BY_LETTER = {reason[0]: reason for reason in _REASONS}


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Entries in the order of their ids. cursor asks for what follows; None at the end."""

    suppressions: list[dict[str, str | None]]
    cursor: str | None


def search(database: Database, parameters: Mapping[str, str]) -> Suppressions:
    """One page of the list. InvalidInputError names a parameter that cannot be what it should."""
    limit = reading.limit(parameters)
    behind = parameters.get("cursor")
    after = None if behind is None else _position(behind)
    reason = reading.choice(parameters, "reason", _REASONS)
    with database.transaction() as connection:
        found = suppression.page(connection, after=after, reason=reason, limit=limit + 1)
    cursor = _cursor(found[limit - 1]) if len(found) > limit else None
    return Suppressions([_shown(entry) for entry in found[:limit]], cursor)


def put(database: Database, document: Mapping[str, Any]) -> dict[str, str | None]:
    """An operator's entry for an address, until it ends or is deleted; a second one replaces it."""
    digest = _digest(document["email"])
    stated = document.get("expires_at")
    until = None if stated is None else reading.stated_moment(stated, pointer="/expires_at")
    with ground.transaction(database) as connection:
        entry = suppression.put(connection, digest, expires_at=until)
    if entry is None:
        raise RefusedInputError("/expires_at", "is over already")
    return _shown(entry)


def look_up(database: Database, email: str) -> dict[str, Any]:
    """An address's entries, and the id that they have."""
    digest = _digest(email)
    with database.transaction() as connection:
        found = suppression.find(connection, digest)
    return {"id": digest.hex(), "suppressions": [_shown(entry) for entry in found]}


def delete(database: Database, wire_id: str, parameters: Mapping[str, str]) -> int:
    """Take an address off the list, for one reason or for all; how many entries that were."""
    if not _ID.fullmatch(wire_id):
        raise MalformedInputError("id", "must be 64 hexadecimal digits in lower case")
    reason = reading.choice(parameters, "reason", _REASONS)
    with ground.transaction(database) as connection:
        return suppression.delete(connection, bytes.fromhex(wire_id), reason=reason)


def _digest(email: str) -> bytes:
    return suppression.digest(ground.pepper(), addresses.parse(email, pointer="/email").deliverable)


def _shown(entry: Entry) -> dict[str, str | None]:
    return {
        "id": entry.address_digest.hex(),
        "reason": entry.reason,
        "created_at": entry.created_at.isoformat(),
        "expires_at": None if entry.expires_at is None else entry.expires_at.isoformat(),
    }


def _cursor(last: Entry) -> str:
    return base64.urlsafe_b64encode(last.address_digest + last.reason[:1].encode()).decode()


def _position(cursor: str) -> tuple[bytes, str]:
    found = base64.urlsafe_b64decode(cursor) if _CURSOR.fullmatch(cursor) else b""
    reason = _BY_LETTER.get(found[_DIGEST_BYTES:].decode("latin-1"))
    if reason is None:
        raise InvalidInputError("cursor", "is not one of ours")
    return found[:_DIGEST_BYTES], reason
