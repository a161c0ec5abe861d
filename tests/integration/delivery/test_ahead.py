"""What is claimed before there is a slot for it: while calls are quick, and never at a cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from postlease.delivery import calls
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

BRIEF = {
    "CALL_BUDGET_SECONDS": "3.5",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "2.9",
    "START_MARGIN_SECONDS": "0.1",
    "LEASE_SECONDS": "6",
    "UNKNOWN_GRACE_SECONDS": "120",
    "SEND_SLOTS": "2",
}
"""A call must begin within 2.4 seconds from the claim, and may take 2.9."""


@pytest.fixture(autouse=True)
def _any_call_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are claimed ahead as may be, however loaded the machine is."""
    monkeypatch.setattr(calls, "_CLAIMED_SECONDS", 60.0)


def wait_for(owner: Connection, counts: dict[str, int]) -> None:
    deadline = time.monotonic() + 30
    while arrange.statuses(owner) != counts:
        assert time.monotonic() < deadline, arrange.statuses(owner)
        time.sleep(0.01)


def undispatched(owner: Connection) -> int:
    [counted] = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages"
        " WHERE status = 'sending' AND dispatched_at IS NULL"
    )
    number: int = counted["n"]
    return number


def test_who_was_claimed_ahead_and_gets_no_slot_in_time_goes_back_at_no_cost(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(**BRIEF)
    arrange.enqueue(owner, 8)
    running = sweeps.start(linger=6)
    wait_for(owner, {"sent": 8})
    # What was quick is slow at once, for longer than those who wait may wait.
    sweeps.meets("slow", 2, seconds=2.7)
    ids = arrange.enqueue(owner, 4)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 2, seconds=30)
    wait_for(owner, {"sent": 8, "sending": 4})
    # Two call, and of those who wait one is authorized.
    deadline = time.monotonic() + 2
    while undispatched(owner) > 1:  # it was seen before it was authorized
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert undispatched(owner) == 1
    assert running.result().counts["sent"] == 12
    ends = sorted(
        [attempt["outcome"] for attempt in arrange.row(owner, message_id)["attempts"]]
        for message_id in ids
    )
    assert ends == [["accepted"], ["accepted"]] + [["handed_back", "accepted"]] * 2
    for message_id in ids:
        stored = arrange.row(owner, message_id)
        assert stored["attempt_count"] - stored["refunded_count"] == 1
        assert stored["reaped_count"] == 0
    assert len(sweeps.inbox()) == 12


def test_who_was_claimed_ahead_meets_no_closed_gate(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(**BRIEF)
    arrange.enqueue(owner, 8)
    running = sweeps.start(linger=3)
    wait_for(owner, {"sent": 8})
    sweeps.meets("pause")
    arrange.enqueue(owner, 20)
    running.result()
    assert sweeps.provider.counts.requests <= 8 + 4
    assert arrange.statuses(owner) == {"sent": 8, "pending": 20}
    unpaid = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages"
        " WHERE status = 'pending' AND attempt_count > refunded_count"
    ).fetchone()
    assert unpaid == {"n": 0}


def test_a_run_that_ends_keeps_nothing_that_it_claimed_ahead(
    sweeps: Sweeps, owner: Connection, environment: Callable[..., None]
) -> None:
    environment(**BRIEF)
    arrange.enqueue(owner, 8)
    running = sweeps.start(linger=6, seconds=9)
    wait_for(owner, {"sent": 8})
    sweeps.meets("slow", seconds=2.7)
    arrange.enqueue(owner, 10)
    tally = running.result()
    # A call whose answer a busy machine did not wait for is nobody's to give back.
    done, unheard = tally.counts["sent"], tally.counts["unknown"]
    left = {"sent": done, "sending": unheard, "pending": 18 - done - unheard}
    assert arrange.statuses(owner) == {status: n for status, n in left.items() if n}
    dispatched = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages"
        " WHERE status = 'sending' AND dispatched_at IS NOT NULL"
    ).fetchone()
    assert dispatched == {"n": unheard}
    held = owner.execute(
        "SELECT count(*) AS n FROM postlease.email_messages"
        " WHERE status = 'pending' AND attempt_count > refunded_count OR reaped_count > 0"
    ).fetchone()
    assert held == {"n": 0}
