"""One owner at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from postlease import outbox
from postlease.model import Claim
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

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


def close_gate(owner: Connection, provider: str = "ses", *, closed_by: UUID | None = None) -> None:
    """Close a provider's gate for everyone."""
    owner.execute(
        "INSERT INTO postlease.provider_gates"
        " (provider, closed_at, close_reason, closed_by, probe_at)"
        " VALUES (%s, now(), 'sending_paused', %s, now())",
        [provider, closed_by],
    )


def test_a_closed_gate_lets_nothing_be_claimed(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    close_gate(owner)
    assert arrange.claim(application) == []
    named = outbox.claim_named(
        application, arrange.claimant("worker-b"), [message_id], arrange.ROOM
    )
    assert named == []
    assert arrange.row(owner, message_id)["attempt_count"] == 0


def test_an_open_gate_lets_everything_be_claimed(
    owner: Connection, application: Connection
) -> None:
    one, other = arrange.enqueue(owner, 2)
    owner.execute("INSERT INTO postlease.provider_gates (provider) VALUES ('ses')")
    [claimed] = arrange.claim(application)
    assert claimed.claim.message_id == one
    [named] = outbox.claim_named(application, arrange.claimant("worker-b"), [other], arrange.ROOM)
    assert named.claim.message_id == other


def test_another_provider_s_gate_closes_nothing(owner: Connection, application: Connection) -> None:
    one, other = arrange.enqueue(owner, 2)
    close_gate(owner, "smtp")
    assert [m.claim.message_id for m in arrange.claim(application)] == [one]
    [named] = outbox.claim_named(application, arrange.claimant("worker-b"), [other], arrange.ROOM)
    assert named.claim.message_id == other


def test_a_probe_passes_a_closed_gate_and_is_not_the_message_that_closed_it(
    owner: Connection, application: Connection
) -> None:
    culprit, innocent = arrange.enqueue(owner, 2)
    close_gate(owner, closed_by=culprit)
    probe = outbox.claim_probe(application, arrange.claimant("worker-a"), avoid=culprit)
    assert probe is not None
    assert probe.claim.message_id == innocent


def test_a_probe_is_what_waits_longest_whatever_its_class(
    owner: Connection, application: Connection
) -> None:
    """Else two messages of a class that are always refused would keep the gate closed for all."""
    [urgent] = arrange.enqueue(owner, priority=50)
    bulk, later = arrange.enqueue(owner, 2, priority=100)
    arrange.age(owner, bulk, timedelta(hours=1), "available_at")
    close_gate(owner)
    found = [
        outbox.claim_probe(application, arrange.claimant(f"worker-{number}"), avoid=None)
        for number in range(3)
    ]
    assert [probe and probe.claim.message_id for probe in found] == [bulk, urgent, later]


def test_what_is_not_due_probes_nothing(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(hours=-1), "available_at")
    close_gate(owner)
    assert outbox.claim_probe(application, arrange.claimant("worker-a"), avoid=None) is None


def test_a_suspect_probes_last(owner: Connection, application: Connection) -> None:
    suspect, other = arrange.enqueue(owner, 2)
    arrange.claim(application)
    arrange.end_lease(owner, suspect)
    arrange.reap(application)
    close_gate(owner)
    found = [
        outbox.claim_probe(application, arrange.claimant(f"worker-{number}"), avoid=None)
        for number in range(2)
    ]
    assert [probe and probe.claim.message_id for probe in found] == [other, suspect]


def test_the_message_that_closed_the_gate_probes_it_when_nothing_else_is_due(
    owner: Connection, application: Connection
) -> None:
    [culprit] = arrange.enqueue(owner)
    close_gate(owner, closed_by=culprit)
    probe = outbox.claim_probe(application, arrange.claimant("worker-a"), avoid=culprit)
    assert probe is not None
    assert outbox.claim_probe(application, arrange.claimant("worker-b"), avoid=culprit) is None


def test_messages_are_claimed_by_name_once(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """A doubled doorbell claims nothing, and what was not named is left alone."""
    one, other = arrange.enqueue(owner, 2)
    first, second = open_application(), open_application()
    [named] = outbox.claim_named(first, arrange.claimant("worker-a"), [one], arrange.ROOM)
    assert named.claim == Claim(one, "worker-a", 1)
    assert outbox.claim_named(second, arrange.claimant("worker-b"), [one], arrange.ROOM) == []
    assert arrange.row(owner, other)["status"] == "pending"


def test_naming_a_message_does_not_make_it_due(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.age(owner, message_id, timedelta(hours=-1), "available_at")
    assert (
        outbox.claim_named(application, arrange.claimant("worker-a"), [message_id], arrange.ROOM)
        == []
    )


def test_a_suspect_is_not_claimed_by_name(owner: Connection, application: Connection) -> None:
    [message_id] = arrange.enqueue(owner)
    arrange.claim(application)
    arrange.end_lease(owner, message_id)
    arrange.reap(application)
    assert (
        outbox.claim_named(application, arrange.claimant("worker-b"), [message_id], arrange.ROOM)
        == []
    )
