"""Looks into the real PostgreSQL, as its owner: what is there, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from datetime import datetime
    from typing import LiteralString

_LEDGER: LiteralString = """
SELECT name, applied_at FROM postlease.schema_migrations ORDER BY name
"""
_TABLES: LiteralString = """
SELECT tablename FROM pg_tables WHERE schemaname = 'postlease' ORDER BY tablename
"""
_MESSAGE: LiteralString = """
SELECT id, template, status, attempts, provider_message_id
FROM postlease.email_messages WHERE id = %(id)s
"""
_COUNTS: LiteralString = """
SELECT (SELECT count(*) FROM postlease.users) AS users,
       (SELECT count(*) FROM postlease.users WHERE verified_at IS NOT NULL) AS verified,
       (SELECT count(*) FROM postlease.email_messages) AS messages,
       (SELECT count(*) FROM postlease.email_messages WHERE status = 'sent') AS sent,
       (SELECT count(*) FROM postlease.schema_migrations) AS files
"""
_ENQUEUE: LiteralString = """
SELECT postlease.enqueue_email('receipt', %(to)s, %(parameters)s) AS id
"""


@dataclass(frozen=True, slots=True)
class Sending:
    """How a message was sent."""

    status: str
    provider_message_id: str | None
    outcomes: tuple[str, ...]


class Witness:
    """One database, seen by the role that owns it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ledger(self) -> dict[str, datetime]:
        """When each file of sql/ was applied."""
        return {row["name"]: row["applied_at"] for row in self._rows(_LEDGER)}

    def tables(self) -> list[str]:
        """The tables of the schema."""
        return [row["tablename"] for row in self._rows(_TABLES)]

    def counts(self) -> dict[str, int]:
        """Rows of what people left."""
        return self._rows(_COUNTS)[0]

    def sending(self, message_id: str) -> Sending | None:
        """How a message was sent; None before anybody has ended an attempt on it."""
        row = self._rows(_MESSAGE, id=message_id)[0]
        if not row["attempts"]:
            return None
        return Sending(
            status=row["status"],
            provider_message_id=row["provider_message_id"],
            outcomes=tuple(attempt["outcome"] for attempt in row["attempts"]),
        )

    def enqueue(self, to: str, parameters: str) -> str:
        """Ask for a receipt in SQL, as any producer does; nobody rings for it."""
        return str(self._rows(_ENQUEUE, to=[to], parameters=parameters)[0]["id"])

    def _rows(self, statement: LiteralString, **parameters: object) -> list[dict[str, Any]]:
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            return connection.execute(statement, parameters).fetchall()
