"""The gates in front of the providers, as operators see them and move them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from postlease import gate
from postlease.config import PROVIDERS, settings
from postlease.errors import InvalidInputError, MalformedInputError
from postlease.messages import ground
from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from postlease.database import Connection, Database
    from postlease.gate import GateReport

# Neither what ends a line, nor what is not seen and turns the direction of reading.
_REASON = re.compile(
    r"(?!\s)[^@\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]{1,200}"
)


def gates(database: Database) -> list[dict[str, Any]]:
    """The gates of all providers that there are adapters for."""
    with database.transaction() as connection:
        return _all(connection)


def find_gate(database: Database, provider: str) -> dict[str, Any]:
    """One provider's gate. MalformedInputError for one that there is no adapter for."""
    _known(provider)
    with database.transaction() as connection:
        return _one(connection, provider)


def rule_gate(
    database: Database, provider: str, document: Mapping[str, Any], *, principal: str
) -> dict[str, Any]:
    """A gate paused, or opened, by principal's word; as it is afterwards."""
    _known(provider)
    reason = document["reason"].rstrip()
    if not _REASON.fullmatch(reason):
        raise InvalidInputError("/reason", "must be 1 to 200 characters of one line, without an @")
    with ground.transaction(database) as connection:
        if document["state"] == "paused":
            gate.pause(connection, provider, by=principal, because=reason)
        elif document["state"] == "open":
            gate.release(connection, provider, by=principal, because=reason)
        else:
            raise InvalidInputError("/state", "must be `open` or `paused`")
        return _one(connection, provider)


def _known(provider: str) -> None:
    if provider not in PROVIDERS:
        raise MalformedInputError("provider", f"must be one of {', '.join(PROVIDERS)}")


def _one(connection: Connection, provider: str) -> dict[str, Any]:
    return next(shown for shown in _all(connection) if shown["provider"] == provider)


def _all(connection: Connection) -> list[dict[str, Any]]:
    noted = {report.provider: report for report in gate.read(connection)}
    return [_shown(noted.get(name) or gate.GateReport(name)) for name in PROVIDERS]


def _shown(report: GateReport) -> dict[str, Any]:
    return {
        "provider": report.provider,
        "in_use": report.provider == settings().mail_provider,
        "state": report.state,
        "reason": report.close_reason,
        "closed_at": _text(report.closed_at),
        "closed_by": None if report.closed_by is None else event_id(report.closed_by),
        "next_probe_at": _text(report.probe_at),
        "failures_in_a_row": report.failures_in_a_row,
        "limit_per_second": report.limit_per_second,
        "rate_per_second": report.rate_per_second,
        "accepted_at": _text(report.accepted_at),
        "ruled_at": _text(report.ruled_at),
        "ruled_by": report.ruled_by,
        "ruled_because": report.ruled_because,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
