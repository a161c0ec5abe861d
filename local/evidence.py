"""What the database and the inbox say about a finished demo. Counts; it asserts nothing itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from postlease.model import event_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

_MESSAGES = """-- demo.messages
    SELECT id, template, delivery, status, failure_reason, attempt_count,
           jsonb_path_query_array(attempts, '$[*].outcome') AS outcomes
    FROM postlease.email_messages ORDER BY created_at, id"""
_USERS = """-- demo.users
    SELECT count(*) AS all, count(verified_at) AS verified FROM postlease.users"""


@dataclass(frozen=True, slots=True)
class Message:
    """One row of the ledger, with the number of its mails in the inbox."""

    event: str
    template: str
    delivery: str
    status: str
    failure_reason: str | None
    attempts: int
    outcomes: tuple[str, ...]
    mails: int

    @property
    def was_unknown(self) -> bool:
        """Whether it was ever held with an outcome that nobody knew."""
        return "unknown" in self.outcomes

    @property
    def was_recovered(self) -> bool:
        """Whether a later attempt sent what an earlier one had left unfinished."""
        return self.status == "sent" and bool({"unknown", "worker_lost"} & set(self.outcomes))

    @property
    def is_lost(self) -> bool:
        """Whether its end is missing or cannot be explained."""
        if self.status == "sent":
            return self.mails == 0
        return self.failure_reason != "outcome_unknown" or self.delivery != "at_most_once"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a run left behind. strays: mails that belong to no message."""

    messages: tuple[Message, ...]
    signups: int
    verified: int
    strays: int

    def figures(self) -> dict[str, int]:
        """The figures of the demo's last line, in its order."""
        return {
            "signups": self.signups,
            "sent": sum(message.status == "sent" for message in self.messages),
            "verified": self.verified,
            "recovered": sum(message.was_recovered for message in self.messages),
            "unknown": sum(message.was_unknown for message in self.messages),
            "lost": sum(message.is_lost for message in self.messages),
            "duplicates": self.strays + sum(max(m.mails - 1, 0) for m in self.messages),
        }


def collect(database_url: str, inbox: Sequence[dict[str, Any]]) -> Evidence:
    """Read the ledger and hold the inbox against it."""
    mails = Counter(str(mail["message_id"]) for mail in inbox)
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        rows = connection.execute(_MESSAGES).fetchall()
        users = connection.execute(_USERS).fetchone() or {}
    messages = tuple(_message(row, mails) for row in rows)
    known = {message.event for message in messages}
    strays = sum(number for event, number in mails.items() if event not in known)
    return Evidence(messages, int(users["all"]), int(users["verified"]), strays)


def _message(row: dict[str, Any], mails: Counter[str]) -> Message:
    identity: UUID = row["id"]
    event = event_id(identity)
    return Message(
        event=event,
        template=row["template"],
        delivery=row["delivery"],
        status=row["status"],
        failure_reason=row["failure_reason"],
        attempts=row["attempt_count"],
        outcomes=tuple(row["outcomes"]),
        mails=mails[event],
    )
