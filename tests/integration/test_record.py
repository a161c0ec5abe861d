"""What an attempt made of its message, written by the holder of its lease alone."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, LiteralString

import pytest

from postlease import outbox
from postlease.delivery import outcomes
from postlease.model import Claim, Settlement
from tests import arrange
from tests.integration.test_settling import wait_for_a_waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from uuid import UUID

    from postlease.database import Connection

FREE: LiteralString = "SELECT id FROM postlease.email_messages"


def test_an_accepted_message_is_sent_with_the_provider_s_id(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    settlement = dataclasses.replace(arrange.sent(message.claim), template_version="v1")
    assert outbox.record(application, [settlement]) == {message_id}
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["provider_message_id"]) == ("sent", "provider-1")
    assert stored["template_version"] == "v1"
    assert stored["sent_at"] == stored["finished_at"]
    assert (stored["lease_owner"], stored["lease_expires_at"]) == (None, None)
    [entry] = stored["attempts"]
    assert (entry["outcome"], entry["owner"], entry["attempt"]) == ("accepted", "worker-a", 1)
    assert (entry["provider"], entry["provider_message_id"]) == ("ses", "provider-1")
    assert entry["dispatched_at"] is not None


def test_a_late_provider_response_cannot_overwrite_a_newer_attempt(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [late] = arrange.claim(application)
    arrange.end_lease(owner, message_id)
    arrange.reap(application)
    [newer] = arrange.claim(application, owner="worker-b", suspects=True)
    before = arrange.row(owner, message_id)
    assert outbox.record(application, [arrange.sent(late.claim, "late")]) == frozenset()
    assert arrange.row(owner, message_id) == before
    arrange.authorize(application, newer.claim)
    assert outbox.record(application, [arrange.sent(newer.claim, "newer")]) == {message_id}
    assert arrange.row(owner, message_id)["provider_message_id"] == "newer"


def test_record_needs_the_lease_owner(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    stranger = Claim(message_id, "worker-b", message.claim.attempt)
    assert outbox.record(application, [arrange.sent(stranger)]) == frozenset()
    assert arrange.row(owner, message_id)["status"] == "sending"


def test_record_needs_the_attempt(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    stranger = Claim(message_id, message.claim.owner, message.claim.attempt + 1)
    assert outbox.record(application, [arrange.sent(stranger)]) == frozenset()
    assert arrange.row(owner, message_id)["status"] == "sending"


def test_record_changes_nothing_after_the_message_ended(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim, "first")])
    before = arrange.row(owner, message_id)
    refused = Settlement(message.claim, "failed", "rejected", failure_reason="rejected")
    assert outbox.record(application, [refused]) == frozenset()
    assert arrange.row(owner, message_id) == before


def test_a_record_whose_commit_was_not_answered_counts_when_repeated(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    settlement = arrange.sent(message.claim)
    outbox.record(application, [settlement])
    before = arrange.row(owner, message_id)
    assert outbox.record(application, [settlement]) == {message_id}
    assert arrange.row(owner, message_id) == before


def test_record_counts_nobody_else_s_entry_as_its_own(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [arrange.sent(message.claim)])
    stranger = Claim(message_id, "worker-b", message.claim.attempt)
    assert outbox.record(application, [arrange.sent(stranger)]) == frozenset()


def test_a_deferral_whose_commit_was_not_answered_counts_when_repeated(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    settlement = outcomes.deferred(message, "busy", chance=0)
    outbox.record(application, [settlement])
    assert outbox.record(application, [settlement]) == {message_id}
    assert arrange.row(owner, message_id)["attempt_count"] == 1


def test_a_deferred_message_waits_and_keeps_its_count(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [outcomes.deferred(message, "busy", chance=0.5)])
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 0)
    assert stored["dispatched_at"] is None
    assert stored["attempts"][-1]["code"] == "busy"
    assert arrange.claim(application, owner="worker-b") == []
    arrange.age(owner, message_id, timedelta(seconds=31), "available_at")
    [again] = arrange.claim(application, owner="worker-c")
    assert again.attempts_left == arrange.MAX_ATTEMPTS - 2


def test_a_handed_back_message_is_due_at_once_and_lost_no_attempt(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    outbox.record(application, [outcomes.handed_back(message.claim)])
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["dispatched_at"]) == ("pending", None)
    assert (stored["attempt_count"], stored["refunded_count"]) == (1, 1)
    [again] = arrange.claim(application, owner="worker-b")
    assert again.attempts_left == arrange.MAX_ATTEMPTS - 1


def test_a_row_that_was_deleted_meanwhile_is_not_recorded(
    owner: Connection, application: Connection
) -> None:
    """QUE-07: no row, no record, and nothing that would send it again."""
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.dispatch(application)
    owner.execute("DELETE FROM postlease.email_messages WHERE id = %s", [message_id])
    assert outbox.record(application, [arrange.sent(message.claim)]) == frozenset()


def test_the_history_keeps_the_last_twenty_attempts(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    for number in range(1, 24):
        [message] = arrange.claim(application, owner=f"worker-{number}")
        outbox.record(application, [outcomes.handed_back(message.claim)])
    attempts = arrange.row(owner, message_id)["attempts"]
    assert [entry["attempt"] for entry in attempts] == list(range(4, 24))


def test_records_and_authorizations_over_the_same_rows_in_opposite_order_do_not_deadlock(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """Every batch locks in the order of ids, whatever the order in which it was gathered."""
    connections = open_application(), open_application()
    start = threading.Barrier(2)

    def ask(place: int, claims: list[Claim]) -> frozenset[UUID]:
        start.wait()
        if place:
            arrange.authorize(connections[1], *claims)
            return frozenset()
        return outbox.record(connections[0], [arrange.sent(claim) for claim in claims])

    with ThreadPoolExecutor(2) as threads:
        for number in range(50):
            arrange.enqueue(owner, 20)
            claimed = arrange.dispatch(connections[0], 20, owner=f"worker-{number}")
            claims = [message.claim for message in claimed]
            recorded, _ = threads.map(ask, (0, 1), (claims, claims[::-1]))
            assert len(recorded) == 20


@pytest.mark.parametrize("statement", ["AUTHORIZE", "RECORD"])
def test_a_batch_locks_in_the_order_of_ids_however_it_was_gathered(
    owner: Connection, open_application: Callable[[], Connection], statement: str
) -> None:
    """Whoever waits for the lowest id holds no other: two such batches cannot wait in a circle."""
    arrange.enqueue(owner, 3)
    worker, other = open_application(), open_application()
    claims = [message.claim for message in arrange.dispatch(worker, 3)]
    claims.sort(key=lambda claim: claim.message_id, reverse=True)
    ask: dict[str, Callable[[], Collection[UUID]]] = {
        "AUTHORIZE": lambda: arrange.authorize(worker, *claims),
        "RECORD": lambda: outbox.record(worker, [arrange.sent(claim) for claim in claims]),
    }
    with ThreadPoolExecutor(1) as beside, other.transaction():
        other.execute(f"{FREE} WHERE id = %s FOR UPDATE", [claims[-1].message_id])
        waiting = beside.submit(ask[statement])
        wait_for_a_waiter(owner)
        free = owner.execute(f"{FREE} FOR UPDATE SKIP LOCKED").fetchall()
        assert {row["id"] for row in free} == {claim.message_id for claim in claims[:-1]}
    assert set(waiting.result()) == {claim.message_id for claim in claims}


def ended_at(owner: Connection, message_id: UUID) -> datetime:
    """When its last attempt ended."""
    text = arrange.row(owner, message_id)["attempts"][-1]["ended_at"]
    return datetime.fromisoformat(text)


def test_when_a_message_last_closed_the_gate_is_kept(
    owner: Connection, application: Connection
) -> None:
    culprit, other = arrange.enqueue(owner, 2)
    for owner_name in ("worker-a", "worker-b"):
        blocked = [
            Settlement(
                message.claim,
                "pending",
                "blocked",
                code="identity",
                refunded=True,
                closed_gate=message.claim.message_id == culprit,
            )
            for message in arrange.dispatch(application, 2, owner=owner_name)
        ]
        assert len(outbox.record(application, blocked)) == 2
    assert arrange.row(owner, culprit)["blocked_at"] == ended_at(owner, culprit)
    assert arrange.row(owner, culprit)["blocked_as"] == "ses identity"
    assert arrange.row(owner, other)["blocked_at"] is None
    met_it = [
        Settlement(message.claim, "pending", "blocked", code="paused", refunded=True)
        for message in arrange.claim(application, 2, owner="worker-c")
    ]
    outbox.record(application, met_it)
    assert arrange.row(owner, culprit)["blocked_as"] == "ses identity"
    assert arrange.row(owner, culprit)["blocked_at"] < ended_at(owner, culprit)
