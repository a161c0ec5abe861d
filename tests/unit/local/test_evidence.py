"""The demo's figures are counted, and a lost or doubled mail shows in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.evidence import Evidence, Message, collect
from postlease.model import event_id

if TYPE_CHECKING:
    from postlease.database import Connection

SENT = Message("evt_1", "verify_email", "at_least_once", "sent", None, 1, ("accepted",), 1)


def changed(**changes: Any) -> Message:
    """SENT with other values."""
    values = {name: getattr(SENT, name) for name in Message.__slots__}
    return Message(**(values | changes))


def figures(*messages: Message, strays: int = 0) -> dict[str, int]:
    """The figures of a run that left these messages."""
    return Evidence(messages, signups=3, verified=2, strays=strays).figures()


def test_a_plain_run_counts_what_is_there() -> None:
    assert figures(SENT, changed(event="evt_2")) == {
        "signups": 3,
        "sent": 2,
        "verified": 2,
        "recovered": 0,
        "unknown": 0,
        "lost": 0,
        "duplicates": 0,
    }


@pytest.mark.parametrize(
    "lost",
    [
        changed(mails=0),
        changed(status="pending", outcomes=()),
        changed(status="sending", outcomes=()),
        changed(status="failed", failure_reason="rejected", mails=0),
        changed(status="failed", failure_reason="outcome_unknown", outcomes=("unknown",)),
    ],
)
def test_a_message_without_an_explained_end_is_lost(lost: Message) -> None:
    assert figures(SENT, lost)["lost"] == 1


def test_an_unknown_that_its_policy_ended_is_not_lost() -> None:
    ended = changed(
        status="failed",
        delivery="at_most_once",
        failure_reason="outcome_unknown",
        outcomes=("unknown",),
    )
    counted = figures(ended)
    assert (counted["unknown"], counted["lost"], counted["recovered"]) == (1, 0, 0)


def test_what_a_later_attempt_sent_is_recovered() -> None:
    for outcomes in (("unknown", "accepted"), ("worker_lost", "accepted")):
        assert figures(changed(outcomes=outcomes, attempts=2))["recovered"] == 1
    assert figures(changed(outcomes=("throttled", "accepted"), attempts=2))["recovered"] == 0


def test_every_mail_beyond_the_first_and_every_stray_is_a_duplicate() -> None:
    assert figures(changed(mails=3), SENT, strays=2)["duplicates"] == 4


def test_the_ledger_is_held_against_the_inbox(owner: Connection, owner_url: str) -> None:
    enqueue = "SELECT postlease.enqueue_email('account_exists', ARRAY['a@example.com']) AS id"
    ids = []
    for _ in range(2):
        row = owner.execute(enqueue).fetchone()
        assert row
        ids.append(event_id(row["id"]))
    owner.commit()
    inbox = [{"message_id": name} for name in (ids[0], ids[0], "evt_else", None)]
    evidence = collect(owner_url, inbox)
    assert {message.event: message.mails for message in evidence.messages} == {ids[0]: 2, ids[1]: 0}
    assert (evidence.strays, evidence.signups) == (2, 0)
    assert evidence.messages[0].status == "pending"
