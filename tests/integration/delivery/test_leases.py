"""A call that takes longer than it may, and a row that is gone when its call returns."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests import arrange

if TYPE_CHECKING:
    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

SECOND = timedelta(seconds=1)


def test_a_call_that_outlives_its_lease_is_made_by_nobody_else(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    """LSE-02: reapers and sweeps pass by, before the lease's end and after, and leave it alone."""
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("slow", seconds=2)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    # The lease is of 20 seconds: half of it is over, then all of it and a part of the grace.
    for passed in (10 * SECOND, 20 * SECOND):
        arrange.age(owner, message_id, passed, "claimed_at", "lease_expires_at")
        assert {reaped.total for reaped in arrange.reap(application).values()} == {0}
        assert sweeps.run().counts["claimed"] == 0
    running.result()
    assert sweeps.provider.counts.requests == 1
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_row_that_is_deleted_during_its_call_is_told_and_not_sent_again(
    sweeps: Sweeps, owner: Connection
) -> None:
    """QUE-07: accepted, and nowhere to record it."""
    [message_id] = arrange.enqueue(owner)
    sweeps.meets("slow", seconds=1.5)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    owner.execute("DELETE FROM postlease.email_messages WHERE id = %s", [message_id])
    assert running.result().counts["accepted_unrecorded"] == 1
    assert sweeps.run().counts["claimed"] == 0
    assert len(sweeps.inbox()) == 1
