"""What a run came to: counted from what the provider saw and from the rows, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from tests.chaos.plan import GRACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from tests.chaos.ledger import Call, Ledger, Mail
    from tests.chaos.plan import Plan, Policy

_ROWS = """-- chaos.rows
    SELECT id, status, failure_reason, provider_message_id, attempts, attempt_count, unknown_count
    FROM postlease.email_messages ORDER BY id"""
_LOST_WORKERS_LIMIT = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """Messages by what became of them; every one of the last six should be zero.

    duplicates counts mails beyond a message's first; flagged those of them that the row owns up
    to: an unknown outcome, then one more send; unexcused those whose event came in time. unknown
    counts messages that ever were. refused failed because the provider said so, given_up by their
    policy with a mail, stated_loss without one. stray calls came after their lease, without a
    mark, or twice in one attempt.
    """

    messages: int = 0
    sent: int = 0
    refused: int = 0
    given_up: int = 0
    stated_loss: int = 0
    unknown: int = 0
    duplicates: int = 0
    flagged: int = 0
    unsettled: int = 0
    sent_without_mail: int = 0
    failed_without_cause: int = 0
    unexcused: int = 0
    wrong_id: int = 0
    stray: int = 0

    @property
    def lost(self) -> int:
        """Messages whose end is missing or is not true."""
        return self.unsettled + self.sent_without_mail + self.failed_without_cause

    def details(self) -> str:
        """Every figure by name."""
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


def collect(
    database_url: str,
    plan: Plan,
    ledger: Ledger,
    *,
    in_client: frozenset[UUID],
    told: bool,
) -> Figures:
    """Read the rows and hold them against the ledger.

    in_client as in `Hunter`; told is whether the provider's events were delivered.
    """
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        rows = connection.execute(_ROWS).fetchall()
    in_time = plan.messages_with_timely_event if told else frozenset[int]()
    return count(rows, ledger, policy=plan.policy, in_client=in_client, in_time=in_time)


def count(
    rows: Sequence[Mapping[str, Any]],
    ledger: Ledger,
    *,
    policy: Policy,
    in_client: frozenset[UUID] = frozenset(),
    in_time: frozenset[int] = frozenset(),
) -> Figures:
    """The figures behind rows."""
    calls, mails, rejected = ledger.calls(), ledger.mails(), ledger.rejected()
    totals = dict.fromkeys((field.name for field in fields(Figures)), 0)
    totals["messages"] = len(rows)
    for row in rows:
        identity: UUID = row["id"]
        found = _judge(
            row,
            calls.get(identity, ()),
            mails.get(identity, ()),
            rejected=identity in rejected,
            policy=policy,
            grace=GRACE if identity in in_client else 0,
        )
        seen = calls.get(identity)
        if seen and seen[0].number in in_time:
            found["unexcused"] = found["duplicates"]
        for name, number in found.items():
            totals[name] += number
    return Figures(**totals)


def wrong(figures: Figures, plan: Plan) -> list[str]:
    """A sentence for each figure that may not be so; empty when all is well."""
    rules = {
        f"messages is {figures.messages}, not {plan.messages}": figures.messages == plan.messages,
        f"lost is {figures.lost}: {figures.details()}": figures.lost == 0,
        f"wrong_id is {figures.wrong_id}: a row names another's mail": not figures.wrong_id,
        f"stray is {figures.stray}: calls without a mark, after their lease, or twice in one"
        " attempt": not figures.stray,
    }
    rules[
        f"unexcused is {figures.unexcused}: the provider had told in time"
    ] = not figures.unexcused
    if plan.provider == "idempotent" or plan.policy == "at_most_once":
        rules[f"duplicates is {figures.duplicates}, not 0"] = not figures.duplicates
    rules[f"duplicates is {figures.duplicates}, but flagged only {figures.flagged}"] = (
        figures.duplicates == figures.flagged
    )
    return [sentence for sentence, holds in rules.items() if not holds]


def _judge(
    row: Mapping[str, Any],
    calls: Sequence[Call],
    mails: Sequence[Mail],
    *,
    rejected: bool,
    policy: Policy,
    grace: float,
) -> dict[str, int]:
    attempts: list[dict[str, Any]] = row["attempts"]
    outcomes = [entry["outcome"] for entry in attempts]
    unknowns = outcomes.count("unknown")
    surplus = max(len(mails) - 1, 0)
    status, reason = row["status"], row["failure_reason"]
    given_up = reason == "outcome_unknown" and unknowns >= (1 if policy == "at_most_once" else 2)
    refused = reason == "rejected" and rejected and not mails
    worker_lost = (
        reason == "worker_lost"
        and not mails
        and outcomes.count("worker_lost") >= _LOST_WORKERS_LIMIT
    )
    return {
        "sent": int(status == "sent"),
        "refused": int(refused),
        "given_up": int(given_up and bool(mails)),
        "stated_loss": int((given_up and not mails) or worker_lost),
        "unknown": int(unknowns > 0),
        "duplicates": surplus,
        "flagged": min(surplus, unknowns) if policy == "at_least_once" else 0,
        "unsettled": int(status in {"pending", "sending"}),
        "sent_without_mail": int(status == "sent" and not mails),
        "failed_without_cause": int(
            status == "failed" and not (given_up or refused or worker_lost)
        ),
        "wrong_id": int(status == "sent" and not _names_its_mail(row, attempts, mails)),
        "stray": _strays(attempts, calls, grace),
    }


def _names_its_mail(
    row: Mapping[str, Any], attempts: Sequence[dict[str, Any]], mails: Sequence[Mail]
) -> bool:
    """Whether the row's provider id is that of one of its mails, and of the attempt it says.

    True without any mail: that is counted elsewhere.
    """
    named = row["provider_message_id"]
    if named == f"resend-key:{row['id']}":
        return bool(mails)
    return not mails or any(
        mail.provider_id == named
        and (
            mail.attempt is None
            or any(
                (entry["attempt"], entry["provider_message_id"]) == (mail.attempt, named)
                for entry in attempts
            )
        )
        for mail in mails
    )


def _strays(attempts: Sequence[dict[str, Any]], calls: Sequence[Call], grace: float) -> int:
    """Calls that no attempt explains: each may call once, between its mark and its lease's end."""
    windows: dict[int, tuple[datetime, datetime]] = {}
    for entry in attempts:
        if entry["dispatched_at"] is not None and entry["outcome"] != "handed_back":
            windows[entry["attempt"]] = (
                datetime.fromisoformat(entry["dispatched_at"]),
                datetime.fromisoformat(entry["lease_expires_at"]) + timedelta(seconds=grace),
            )
    strays = 0
    for call in calls:
        at = call.at
        fitting = [
            attempt
            for attempt, (begins, ends) in windows.items()
            if begins.timestamp() <= at <= ends.timestamp() and call.attempt in {attempt, None}
        ]
        if fitting:
            del windows[min(fitting, key=lambda attempt: windows[attempt][1])]
        else:
            strays += 1
    return strays
