"""One owner at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from postlease import outbox
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection


def test_two_workers_cannot_claim_the_same_pending_row(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    [message_id] = arrange.enqueue(owner)
    first, second = open_application(), open_application()
    assert [m.claim.message_id for m in arrange.claim(first, 5)] == [message_id]
    assert arrange.claim(second, 5, owner="worker-b") == []


def test_a_claim_skips_rows_that_another_worker_is_claiming(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """QUE-02: what another transaction has locked is neither waited for nor taken."""
    one, other = arrange.enqueue(owner, 2)
    first, second = open_application(), open_application()
    with first.transaction():
        assert [m.claim.message_id for m in arrange.claim(first, 1)] == [one]
        assert [m.claim.message_id for m in arrange.claim(second, 2, owner="b")] == [other]


def test_a_claim_takes_no_more_than_its_slots(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner, 10)
    assert len(arrange.claim(application, 3)) == 3
    assert arrange.statuses(owner) == {"pending": 7, "sending": 3}


def test_a_claim_spends_the_attempt_before_anything_is_sent(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    [message] = arrange.claim(application)
    assert message.claim.attempt == 1
    assert message.attempts_left == arrange.MAX_ATTEMPTS - 1
    stored = arrange.row(owner, message_id)
    assert (stored["attempt_count"], stored["lease_owner"]) == (1, "worker-a")
    assert stored["lease_expires_at"] - stored["claimed_at"] == arrange.LEASE


def test_a_claim_carries_all_that_delivery_needs(
    owner: Connection, application: Connection
) -> None:
    message_id, token_id = arrange.auth_message(owner)
    owner.execute(
        "INSERT INTO postlease.email_attachments"
        " (message_id, position, filename, content_type, storage_ref, version_id, size, sha256)"
        " VALUES (%s, 1, 'a.pdf', 'application/pdf', 'attachments/a b+c.pdf', 'v1', 3,"
        " sha256('abc'))",
        [message_id],
    )
    [message] = arrange.claim(application)
    assert message.claim.message_id == message_id
    assert message.to_addresses == ("reader@example.com",)
    assert message.token is not None
    assert (message.token.id, message.token.purpose) == (token_id, "verify_email")
    [attachment] = message.attachments
    assert (attachment.storage_ref, attachment.version_id) == ("attachments/a b+c.pdf", "v1")
    assert "reader@example.com" not in repr(message)


def test_a_message_is_not_claimed_before_its_time(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(hours=-1), "available_at")
    assert arrange.claim(application) == []


def test_auth_mail_behind_ten_thousand_bulk_messages_leaves_with_the_next_claim(
    owner: Connection, application: Connection
) -> None:
    owner.execute(
        "INSERT INTO postlease.email_messages (template, to_addresses, producer, priority)"
        " SELECT 'receipt', ARRAY['r' || n || '@example.com'], 'shop', 100"
        " FROM generate_series(1, 10000) AS n"
    )
    arrange.enqueue(owner, 3)
    message_id, _ = arrange.auth_message(owner)
    claimed = arrange.claim(application, 6)
    assert [m.priority for m in claimed] == [0, 50, 50, 50, 100, 100]
    assert claimed[0].claim.message_id == message_id


def test_a_class_is_claimed_oldest_first(owner: Connection, application: Connection) -> None:
    ids = arrange.enqueue(owner, 4)
    for place, message_id in enumerate(ids):
        arrange.age(owner, message_id, timedelta(minutes=place), "available_at")
    floors = outbox.Floors()
    found = [
        arrange.claim(application, 1, owner=f"worker-{n}", floors=floors)[0].claim.message_id
        for n in range(4)
    ]
    assert found == ids[::-1]


def test_a_floor_hides_nothing_for_longer_than_one_empty_claim(
    owner: Connection, application: Connection
) -> None:
    """A late commit or a retry lies before the floor; the claim that finds nothing looks again."""
    late, first = arrange.enqueue(owner, 2)
    arrange.age(owner, late, timedelta(hours=-1), "available_at")
    floors = outbox.Floors()
    assert [m.claim.message_id for m in arrange.claim(application, 5, floors=floors)] == [first]
    arrange.age(owner, late, timedelta(hours=2), "available_at")
    found = arrange.claim(application, 5, owner="worker-b", floors=floors)
    assert [m.claim.message_id for m in found] == [late]


def test_a_claim_starts_behind_its_floor(owner: Connection, application: Connection) -> None:
    early, middle, last = arrange.enqueue(owner, 3)
    arrange.age(owner, early, timedelta(hours=-1), "available_at")
    floors = outbox.Floors()
    assert [m.claim.message_id for m in arrange.claim(application, 1, floors=floors)] == [middle]
    arrange.age(owner, early, timedelta(hours=2), "available_at")
    found = arrange.claim(application, 2, owner="worker-b", floors=floors)
    assert [m.claim.message_id for m in found] == [last]


def test_what_a_lost_worker_held_is_claimed_alone(
    owner: Connection, application: Connection
) -> None:
    suspect, innocent = arrange.enqueue(owner, 2)
    arrange.claim(application, 1)
    arrange.end_lease(owner, suspect)
    arrange.reap(application)
    assert outbox.suspects_due(application)
    assert [m.claim.message_id for m in arrange.claim(application, 5, owner="b")] == [innocent]
    [message] = arrange.claim(application, 1, owner="c", suspects=True)
    assert message.claim.message_id == suspect
    assert not outbox.suspects_due(application)


def test_an_ordinary_message_is_no_suspect(owner: Connection, application: Connection) -> None:
    arrange.enqueue(owner)
    assert not outbox.suspects_due(application)


def test_threads_claiming_at_once_share_the_queue_without_overlap(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    arrange.enqueue(owner, 200)
    connections = [open_application() for _ in range(4)]
    start = threading.Barrier(4)

    def drain(place: int) -> list[object]:
        start.wait()
        found: list[object] = []
        floors = outbox.Floors()
        while batch := arrange.claim(
            connections[place], 7, owner=f"{place}-{len(found)}", floors=floors
        ):
            found += [message.claim.message_id for message in batch]
        return found

    with ThreadPoolExecutor(4) as threads:
        claimed = [message for found in threads.map(drain, range(4)) for message in found]
    assert len(claimed) == len(set(claimed)) == 200


def test_ids_are_in_the_order_of_their_making_and_of_version_7(owner: Connection) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    [first] = arrange.enqueue(owner)
    owner.execute("SELECT pg_sleep(0.002)")
    [second] = arrange.enqueue(owner)
    assert (first.version, second.version) == (7, 7)
    assert first < second
    made = datetime.fromtimestamp((first.int >> 80) / 1000, UTC)
    assert before < made < before + timedelta(seconds=60)
