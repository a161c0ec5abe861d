"""Leasing a message writes no index: no lease column stands in one, and the pages have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease import outbox
from postlease.database import connect
from tests import arrange

if TYPE_CHECKING:
    from postlease.database import Connection

BATCHES = 40


def test_claims_and_dispatch_marks_are_mostly_updates_in_place(
    owner: Connection, application_conninfo: str
) -> None:
    arrange.enqueue(owner, BATCHES * 10)
    before = updates(owner)
    with connect(application_conninfo) as sender:
        floors = outbox.Floors()
        for place in range(BATCHES):
            batch = arrange.claim(sender, 10, owner=f"worker-{place}", floors=floors)
            assert len(batch) == 10
            arrange.authorize(sender, *(message.claim for message in batch))
    # A session's counts arrive when it ends.
    for _ in range(500):
        made, in_place = (now - then for now, then in zip(updates(owner), before, strict=True))
        if made >= BATCHES * 20:
            break
        owner.execute("SELECT pg_sleep(0.01)")
    assert made >= BATCHES * 20
    assert in_place / made > 0.8


def updates(connection: Connection) -> tuple[int, int]:
    """How many rows of email_messages were updated so far, and how many of those in place."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        " WHERE relid = 'postlease.email_messages'::regclass"
    ).fetchone()
    assert row
    return row["n_tup_upd"], row["n_tup_hot_upd"]
