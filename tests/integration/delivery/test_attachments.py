"""Attachments from the upload to the inbox, and what a run holds of them at a time."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from postlease import attachments, outbox
from postlease.attachments import Wanted
from postlease.delivery import intake
from postlease.delivery.slots import Slots
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from postlease.attachments import Pinned
    from postlease.database import Connection
    from tests.integration.delivery.conftest import Sweeps

    Put = Callable[[str, bytes], str]

PRODUCER = "billing"
KEPT = f"attachments/kept/{attachments.tag(PRODUCER)}/"
CONTENT = b"%PDF-1.7"


def attach(owner: Connection, message_id: UUID, *pinned: Pinned) -> None:
    """Let a message refer to pinned objects."""
    for position, one in enumerate(pinned, 1):
        owner.execute(
            "INSERT INTO postlease.email_attachments (message_id, position, filename, content_type,"
            " storage_ref, version_id, size, sha256, content_id)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                message_id,
                position,
                one.filename,
                one.content_type,
                one.storage_ref,
                one.version_id,
                one.size,
                one.sha256,
                one.content_id,
            ],
        )
    owner.execute(
        "UPDATE postlease.email_messages SET attachment_bytes = %s WHERE id = %s",
        [sum(one.size for one in pinned), message_id],
    )


def pin(*keys: str, filename: str = "a.pdf") -> list[Pinned]:
    """What lies under keys now."""
    return attachments.pin(
        PRODUCER, [Wanted(f"/attachments/{n}", key, filename) for n, key in enumerate(keys)]
    )


def weighing(
    owner: Connection, bucket: Put, *sizes: int, priority: int = 50, waits: int = 10
) -> list[UUID]:
    """A message with an attachment for each size, the longest waiting first."""
    ids = arrange.enqueue(owner, len(sizes), priority=priority)
    for place, (message_id, size) in enumerate(zip(ids, sizes, strict=True)):
        if size:
            key = f"{KEPT}{message_id}"
            bucket(key, b"x" * size)
            attach(owner, message_id, *pin(key))
        waited = timedelta(minutes=waits) - timedelta(seconds=place)
        arrange.age(owner, message_id, waited, "available_at", "created_at")
    return ids


def test_what_was_uploaded_and_pinned_arrives(
    sweeps: Sweeps, owner: Connection, bucket: Put
) -> None:
    """ATT-01, ATT-04: the name that was asked for, whatever the key is made of."""
    bucket("attachments/other", b"")
    filename = "Pr\u00fcfbericht a b+c%20\u05e9\u05dc\u05d5\u05dd.pdf"
    upload = attachments.upload(
        PRODUCER,
        filename=filename,
        content_type="application/pdf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    request = urllib.request.Request(  # noqa: S310 - a loopback port
        upload.url, data=CONTENT, method=upload.method, headers=dict(upload.headers)
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        assert answer.status == 200
    [message_id] = arrange.enqueue(owner)
    attach(owner, message_id, *pin(upload.storage_ref, filename=filename))
    assert sweeps.run().counts["sent"] == 1
    [mail] = sweeps.inbox()
    [attached] = mail["attachments"]
    assert (attached["filename"], attached["size"]) == (filename, len(CONTENT))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s3, key, version: s3.put_object(Bucket="attachments", Key=key, Body=b"x"), None),
        (lambda s3, key, version: s3.delete_object(Bucket="attachments", Key=key), None),
        (
            lambda s3, key, version: s3.delete_object(
                Bucket="attachments", Key=key, VersionId=version
            ),
            "attachment_missing",
        ),
    ],
    ids=["overwritten", "deleted behind a marker", "deleted by version"],
)
def test_what_was_pinned_is_sent_as_long_as_its_version_is_there(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    change: Callable[[Any, str, str], object],
    reason: str | None,
) -> None:
    version = bucket(KEPT + "a", CONTENT)
    [message_id] = arrange.enqueue(owner)
    attach(owner, message_id, *pin(KEPT + "a"))
    s3 = boto3.client("s3")
    change(s3, KEPT + "a", version)
    s3.close()
    sweeps.run()
    assert arrange.row(owner, message_id)["failure_reason"] == reason
    assert [mail["attachments"][0]["size"] for mail in sweeps.inbox()] == (
        [] if reason else [len(CONTENT)]
    )


def test_a_storage_that_is_down_costs_no_attempt_and_the_mail_leaves_when_it_is_back(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    environment: Callable[..., None],
    aws_endpoint: str,
) -> None:
    [message_id] = weighing(owner, bucket, 8)
    environment(AWS_ENDPOINT_URL_S3="http://127.0.0.1:9")
    sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["attempt_count"], stored["refunded_count"]) == (
        "pending",
        1,
        1,
    )
    assert sweeps.inbox() == []
    environment(AWS_ENDPOINT_URL_S3=aws_endpoint)
    arrange.age(owner, message_id, timedelta(hours=1), "available_at")
    assert sweeps.run().counts["sent"] == 1


@contextlib.contextmanager
def dripping(pieces: int, piece: bytes, seconds: float, *, cut: int = 0) -> Iterator[str]:
    """A storage that answers in pieces, one in so many seconds, and at last closes the connection.

    cut: so many pieces of what it announced never come.
    """

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(piece) * pieces))
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(pieces - cut):
                    ended.wait(seconds)
                    self.wfile.write(piece)

        def log_message(self, *_words: object) -> None:
            pass

    ended = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    running = threading.Thread(target=server.serve_forever)
    running.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        ended.set()
        server.shutdown()
        running.join()
        server.server_close()


def test_a_storage_too_slow_for_the_lease_costs_no_attempt_and_no_lease(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    """Each of its pieces is in time, and all together are not: the message is no suspect for it."""
    [message_id] = weighing(owner, bucket, 6_000_000)
    with dripping(20, b"x" * 300_000, 0.5) as url:
        environment(AWS_ENDPOINT_URL_S3=url, LEASE_SECONDS="13", UNKNOWN_GRACE_SECONDS="50")
        sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)
    assert stored["attempts"][-1]["outcome"] == "unreachable"
    assert sweeps.inbox() == []


def test_a_silent_storage_does_not_hold_the_slots_of_mail_that_needs_nothing_of_it(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    """It is asked by as many as there are slots, and then not again for a while."""
    asking = weighing(owner, bucket, *[100] * 6, waits=60)
    weighing(owner, bucket, 0, 0, 0, 0)
    with dripping(1, b"x" * 100, 60) as url:
        environment(AWS_ENDPOINT_URL_S3=url, SEND_SLOTS="2", READ_TIMEOUT_SECONDS="1")
        tally = sweeps.run()
    assert tally.counts["sent"] == 4
    attempts = [arrange.row(owner, key)["attempt_count"] for key in asking]
    assert attempts == [1, 1, 0, 0, 0, 0]


def test_nobody_else_waits_while_a_message_waits_for_the_storage(
    sweeps: Sweeps, owner: Connection, bucket: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighing(owner, bucket, 100, waits=60)
    weighing(owner, bucket, 0)
    load, in_time = attachments.load, []

    def slow(*given: Any, **named: Any) -> Any:
        in_time.append(sweeps.provider.wait_for(lambda counts: counts.requests == 1, seconds=5))
        return load(*given, **named)

    monkeypatch.setattr(attachments, "load", slow)
    assert sweeps.run().counts["sent"] == 2
    assert in_time == [True]


def test_named_messages_wait_for_a_silent_storage_and_are_left_to_the_next_ring(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    first, second = weighing(owner, bucket, 100, 100)
    [plain] = weighing(owner, bucket, 0)
    with dripping(1, b"x" * 100, 60) as url:
        environment(AWS_ENDPOINT_URL_S3=url, SEND_SLOTS="1", READ_TIMEOUT_SECONDS="1")
        tally = sweeps.ring(first, second, plain, seconds=15)
    assert arrange.row(owner, plain)["status"] == "sent"
    assert second in tally.unseen


def test_an_answer_that_ends_too_early_does_not_count_as_another_object(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    [message_id] = weighing(owner, bucket, 600_000)
    with dripping(2, b"x" * 300_000, 0, cut=1) as url:
        environment(AWS_ENDPOINT_URL_S3=url)
        sweeps.run()
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["refunded_count"]) == ("pending", 1)


def test_no_more_attachments_are_in_flight_than_the_budget_allows(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    """ATT-07: and what was given back is used again."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250")
    weighing(owner, bucket, *[100] * 6)
    sweeps.meets("slow", 2, seconds=1)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 2, seconds=30)
    assert arrange.statuses(owner) == {"sending": 2, "pending": 4}
    assert running.result().counts["sent"] == 6


def test_a_message_larger_than_the_budget_goes_alone_and_auth_mail_beside_it(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    """ATT-07: it needs no memory that others hold, and stops nobody who needs none."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250")
    first, huge, last = weighing(owner, bucket, 100, 300, 100)
    sweeps.meets("stall", 1)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    assert [arrange.row(owner, key)["status"] for key in (first, huge, last)] == [
        "sending",
        "pending",
        "pending",
    ]
    running.result()
    assert [arrange.row(owner, key)["status"] for key in (huge, last)] == ["sent", "sent"]
    sizes = [mail["attachments"][0]["size"] for mail in sweeps.inbox()]
    assert sizes == [300, 100]


def test_the_smallest_budget_and_a_single_slot_send_everything_and_give_everything_back(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever becomes of the calls."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT="1", SEND_SLOTS="1")
    used: set[Slots] = set()
    give_back = Slots.give_back

    def noted(slots: Slots, held: int) -> None:
        give_back(slots, held)
        used.add(slots)

    monkeypatch.setattr(Slots, "give_back", noted)
    ids = weighing(owner, bucket, 300, 0, 5, 1, 400) + weighing(owner, bucket, 1, 0, priority=100)
    for mode in ("throttle", "reject"):
        sweeps.meets(mode, 1)
        sweeps.run()
        for message_id in ids:
            arrange.age(owner, message_id, timedelta(hours=1), "available_at")
    sweeps.run()
    assert arrange.statuses(owner) == {"sent": 6, "failed": 1}
    assert {(slots.in_flight, slots.room) for slots in used} == {(0, outbox.Room(1, alone=True))}


def test_a_sweep_does_not_end_over_room_that_came_back_while_it_looked(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250")
    weighing(owner, bucket, 200, 200)
    ended = threading.Event()
    give_back, claim = Slots.give_back, outbox.claim

    def noted(slots: Slots, held: int) -> None:
        give_back(slots, held)
        ended.set()

    def slow(*given: Any, **named: Any) -> Any:
        found = claim(*given, **named)
        assert found or ended.wait(30)
        return found

    monkeypatch.setattr(Slots, "give_back", noted)
    monkeypatch.setattr(outbox, "claim", slow)
    sweeps.meets("slow", 1, seconds=1)
    assert sweeps.run().counts["sent"] == 2


def test_more_named_messages_than_there_is_room_for_are_all_sent(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250")
    ids = weighing(owner, bucket, 100, 300, 0, 200, 100)
    sweeps.meets("slow", 1, seconds=0.5)
    running = sweeps.start_ring(*ids)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    assert arrange.statuses(owner) == {"sending": 1, "pending": 4}
    tally = running.result()
    assert (tally.counts["sent"], tally.unseen) == (5, set())


def test_a_named_message_that_another_has_is_not_waited_for(
    sweeps: Sweeps, owner: Connection, bucket: Put, application: Connection
) -> None:
    ours, theirs = weighing(owner, bucket, 100, 100)
    outbox.claim_named(application, arrange.claimant("other"), [theirs], arrange.ROOM)
    tally = sweeps.ring(ours, theirs)
    assert (tally.counts["sent"], tally.unseen) == (1, set())


def test_a_large_bulk_message_is_not_passed_for_ever_by_the_small_ones_of_a_better_class(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is always another small one in flight when one of them ends."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250", SEND_SLOTS="3")
    monkeypatch.setattr(intake, "_HELD_UP_SECONDS", 0.0)
    [large] = weighing(owner, bucket, 300, priority=100, waits=60)
    weighing(owner, bucket, *[100] * 40)
    sweeps.meets("slow", seconds=0.05)
    sweeps.run()
    order = [mail["attachments"][0]["size"] for mail in sweeps.inbox()]
    assert sorted(order) == [100] * 40 + [300]
    assert order.index(300) < 10
    assert arrange.row(owner, large)["status"] == "sent"


def test_while_a_large_message_waits_for_its_room_auth_mail_leaves(
    sweeps: Sweeps,
    owner: Connection,
    bucket: Put,
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250")
    monkeypatch.setattr(intake, "_HELD_UP_SECONDS", 0.0)
    weighing(owner, bucket, 300, priority=100, waits=60)
    weighing(owner, bucket, 100, 100)
    sweeps.meets("stall", 2)
    running = sweeps.start(linger=5)
    assert sweeps.provider.wait_for(lambda counts: counts.held == 2, seconds=30)
    with owner.transaction():
        [note] = arrange.enqueue(owner)
        owner.execute("UPDATE postlease.email_messages SET priority = 0 WHERE id = %s", [note])
    assert sweeps.provider.wait_for(lambda counts: counts.accepted == 1, seconds=5)
    assert arrange.row(owner, note)["status"] in {"sending", "sent"}
    running.result()


def test_mail_without_attachments_does_not_wait_behind_those_that_wait_for_room(
    sweeps: Sweeps, owner: Connection, bucket: Put, environment: Callable[..., None]
) -> None:
    """However many of them there are; and the large one still goes when there is room for it."""
    environment(ATTACHMENT_BYTES_IN_FLIGHT="250", SEND_SLOTS="3")
    weighing(owner, bucket, 100, 300, 200, 200, 200, waits=60)
    sweeps.meets("stall", 1)
    running = sweeps.start()
    assert sweeps.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
    weighing(owner, bucket, 0, 0, 0, 0, 0, 0)
    assert sweeps.provider.wait_for(lambda counts: counts.accepted == 6, seconds=5)
    running.result()
    sizes = [mail["attachments"][0]["size"] for mail in sweeps.inbox() if mail["attachments"]]
    assert sizes[0] == 300
    assert arrange.statuses(owner) == {"sending": 1, "sent": 10}


def test_a_message_that_kills_every_worker_ends_as_worker_lost(
    owner: Connection, application: Connection
) -> None:
    """ATT-07: its lease ends undispatched three times; it goes alone from the second time on."""
    [message_id] = arrange.enqueue(owner)
    owner.execute("UPDATE postlease.email_messages SET attachment_bytes = 28000000")
    for death in range(3):
        assert arrange.claim(application, 10, suspects=death == 0) == []
        [message] = arrange.claim(application, 10, suspects=death > 0, owner=f"worker-{death}")
        assert message.claim.message_id == message_id
        arrange.end_lease(owner, message_id)
        arrange.reap(application)
    stored = arrange.row(owner, message_id)
    assert (stored["status"], stored["failure_reason"]) == ("failed", "worker_lost")
    assert stored["reaped_count"] == 3
    assert arrange.claim(application, 10) == arrange.claim(application, 10, suspects=True) == []
