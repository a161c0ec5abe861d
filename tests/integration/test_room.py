"""A run holds so many bytes of attachments at a time: what it claims, and who waits for room."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import outbox
from postlease.outbox import Room
from tests import arrange

if TYPE_CHECKING:
    from uuid import UUID

    from postlease.database import Connection

EMPTY = Room(20, alone=True)


def enqueue(owner: Connection, *sizes: int, priority: int = 50) -> list[UUID]:
    """A message for each size, the longest waiting first; an attachment's size is all we know."""
    ids = arrange.enqueue(owner, len(sizes), priority=priority)
    for place, (message_id, size) in enumerate(zip(ids, sizes, strict=True)):
        owner.execute(
            "UPDATE postlease.email_messages SET attachment_bytes = %s WHERE id = %s",
            [size, message_id],
        )
        arrange.age(owner, message_id, timedelta(minutes=30 - place), "available_at", "created_at")
    return ids


def claimed(application: Connection, room: Room, **arguments: object) -> list[UUID]:
    """What a claim with so much room takes, of ten at most."""
    messages = arrange.claim(application, 10, room=room, **arguments)  # type: ignore[arg-type]
    return [message.claim.message_id for message in messages]


def test_a_claim_takes_the_first_ones_that_fit_together(
    owner: Connection, application: Connection
) -> None:
    ids = enqueue(owner, 10, 10, 1)
    assert claimed(application, EMPTY) == ids[:2]
    assert arrange.statuses(owner) == {"sending": 2, "pending": 1}


def test_beside_others_as_many_fit(owner: Connection, application: Connection) -> None:
    ids = enqueue(owner, 10, 10, 1)
    assert claimed(application, Room(20, alone=False)) == ids[:2]


def test_room_is_given_in_the_order_of_urgency_and_of_waiting(
    owner: Connection, application: Connection
) -> None:
    bulk, late_bulk = enqueue(owner, 7, 7, priority=100)
    waiting, late = enqueue(owner, 9, 3)
    # Made in another order than they became due.
    arrange.age(owner, late, timedelta(hours=1), "available_at", "created_at")
    arrange.age(owner, late_bulk, timedelta(hours=1), "available_at", "created_at")
    assert claimed(application, EMPTY) == [late, waiting, late_bulk]
    assert arrange.row(owner, bulk)["status"] == "pending"


def test_what_does_not_fit_is_waited_for_by_all_behind_it(
    owner: Connection, application: Connection
) -> None:
    """It must not be passed for ever by small ones, nor by those of a class behind its own."""
    large, *_ = enqueue(owner, 15, 5, 0)
    enqueue(owner, 5, 0, priority=100)
    assert claimed(application, Room(10, alone=False)) == []
    assert claimed(application, Room(15, alone=False)) == [large]


def test_what_does_not_fit_stops_no_auth_mail(owner: Connection, application: Connection) -> None:
    enqueue(owner, 15)
    message_id, _ = arrange.auth_message(owner)
    assert claimed(application, Room(0, alone=False)) == [message_id]


def test_what_is_larger_than_any_room_is_claimed_alone(
    owner: Connection, application: Connection
) -> None:
    """ATT-07: not beside others, and no others beside it."""
    huge, other_huge, _ = enqueue(owner, 21, 21, 1)
    assert claimed(application, Room(19, alone=False)) == []
    assert claimed(application, EMPTY) == [huge]
    assert claimed(application, Room(0, alone=False)) == []
    assert claimed(application, EMPTY) == [other_huge]


def test_a_floor_does_not_hide_what_did_not_fit(owner: Connection, application: Connection) -> None:
    floors = outbox.Floors()
    small, large, last = enqueue(owner, 10, 15, 5)
    assert claimed(application, Room(10, alone=True), floors=floors) == [small]
    assert not floors.at_start()
    assert claimed(application, EMPTY, floors=floors) == [large, last]


def test_what_needs_no_room_can_be_claimed_past_what_waits_for_some(
    owner: Connection, application: Connection
) -> None:
    """All of it, in its order, and nothing else, whatever room there is."""
    large, plain, _, last = enqueue(owner, 15, 0, 1, 0)
    [bulk] = enqueue(owner, 0, priority=100)
    assert claimed(application, EMPTY, plain=True) == [plain, last, bulk]
    assert claimed(application, EMPTY, plain=True) == []
    assert claimed(application, Room(15, alone=False)) == [large]


def test_a_claim_by_name_takes_what_fits(owner: Connection, application: Connection) -> None:
    ids = enqueue(owner, 10, 10, 1)
    named = outbox.claim_named(application, arrange.claimant("worker-a"), ids, EMPTY)
    assert [message.claim.message_id for message in named] == ids[:2]


def test_a_claim_by_name_takes_what_is_larger_than_any_room_alone(
    owner: Connection, application: Connection
) -> None:
    ids = enqueue(owner, 21, 1)
    beside = outbox.claim_named(
        application, arrange.claimant("worker-a"), ids, Room(20, alone=False)
    )
    assert beside == []
    [huge] = outbox.claim_named(application, arrange.claimant("worker-a"), ids, EMPTY)
    assert huge.claim.message_id == ids[0]


def test_a_probe_may_be_of_any_size(owner: Connection, application: Connection) -> None:
    [huge] = enqueue(owner, 28_500_000)
    probe = outbox.claim_probe(application, arrange.claimant("worker-a"), avoid=None)
    assert probe is not None
    assert probe.claim.message_id == huge


def test_a_suspect_may_be_of_any_size(owner: Connection, application: Connection) -> None:
    [huge] = enqueue(owner, 28_500_000)
    owner.execute("UPDATE postlease.email_messages SET reaped_count = 1")
    assert claimed(application, Room(0, alone=False), suspects=True) == [huge]


def test_among_those_that_do_not_fit_the_one_that_waits_longest_is_held_up(
    owner: Connection, application: Connection
) -> None:
    """Whatever its class: the classes before it would take the room again and again."""
    small, bulk, _ = enqueue(owner, 10, 11, 30, priority=100)
    transactional = enqueue(owner, 12)[0]
    arrange.age(owner, transactional, timedelta(minutes=-20), "available_at", "created_at")
    assert outbox.held_up(application, Room(10, alone=False)) == outbox.HeldUp(bulk, 11)
    assert outbox.held_up(application, Room(30, alone=False)) is None
    assert arrange.row(owner, small)["status"] == "pending"


def test_nobody_is_held_up_who_is_not_due_or_no_longer_waits_or_cost_a_worker(
    owner: Connection, application: Connection
) -> None:
    early, sending, suspect = enqueue(owner, 11, 11, 11)
    arrange.age(owner, early, timedelta(hours=-1), "available_at")
    owner.execute("UPDATE postlease.email_messages SET reaped_count = 1 WHERE id = %s", [suspect])
    outbox.claim_named(application, arrange.claimant("worker-a"), [sending], EMPTY)
    assert arrange.row(owner, sending)["status"] == "sending"
    assert outbox.held_up(application, Room(10, alone=False)) is None
