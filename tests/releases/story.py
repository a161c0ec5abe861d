"""One of everything that this code does with its database, so that each statement is said once.

A new statement wants its place here: `test_every_statement_is_part_of_the_story` names it. What
lies in the past comes by parameters (a lease of a microsecond, a grace below nothing), since
arranged rows would be no release's statements.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from postlease import (
    accounts,
    gate,
    idempotency,
    limits,
    migrations,
    outbox,
    retention,
    suppression,
)
from postlease.attachments import deleting, orphans
from postlease.gate import closing, pacing
from postlease.messages import ground as messages_ground
from postlease.model import AttachmentReference, Settlement, Unreachable
from postlease.retention import archiving, duties, ending, erasing, rehearsing
from postlease.suppression import noting
from tests import arrange
from tests.releases.accounts import reset_and_change, sign_up_and_verify
from tests.releases.actors import AGO, DIGEST, FAR, MOMENT, send
from tests.releases.producing import produce

if TYPE_CHECKING:
    from tests.releases.actors import Actors

CLIENT = "203.0.113.7"


def tell(actors: Actors) -> None:
    """The whole story."""
    produce(actors)
    _take_messages(actors)
    _deliver(actors)
    _reap_and_settle(actors)
    _probe_and_pace(actors)
    _operate(actors)
    sign_up_and_verify(actors)
    reset_and_change(actors)
    _list_addresses(actors)
    _retain(actors)
    _migrate(actors)


def _take_messages(actors: Actors) -> None:
    key = idempotency.Key(b"k" * 32, b"r" * 32)
    with messages_ground.transaction(actors.application) as connection:
        idempotency.answered(connection, key)
        idempotency.begin(connection, key, lifetime=timedelta(hours=24))
        asked = {"template": "receipt", "to_addresses": ["b@example.com"], "cancel_scope": "B"}
        outbox.enqueue_for(connection, "arn:aws:iam::1:role/shop", [asked])
        idempotency.finish(connection, key, status_code=202, response={"event_id": "evt_1"})
    with messages_ground.transaction(actors.application) as connection:
        idempotency.answered(connection, key)
        idempotency.begin(connection, key, lifetime=timedelta(hours=24))
    accounts.admit(actors.application, client=CLIENT)


def _deliver(actors: Actors) -> None:
    connection = actors.connection
    outbox.suspects_due(connection)
    outbox.held_up(connection, outbox.Room(0, alone=False))
    floors = outbox.Floors()
    for owner in ("worker-a", "worker-b"):
        send(actors, arrange.claim(connection, 2, owner=owner, floors=floors))
    [message_id] = arrange.enqueue(connection)
    named = outbox.claim_named(connection, arrange.claimant("bell"), [message_id], arrange.ROOM)
    send(actors, named)
    later = [arrange.sent(message.claim) for message in named]
    outbox.record(connection, later)  # recorded before
    outbox.event_state(connection, message_id)
    deferred = arrange.dispatch(connection, owner="worker-c")
    outbox.record(
        connection,
        [
            Settlement(m.claim, "pending", "deferred", code="busy", delay=timedelta(0))
            for m in deferred
        ],
    )


def _tag(producer: str) -> str:
    """What `postlease.attachments_tag` answers a role of that name."""
    return hashlib.sha256(producer.encode()).hexdigest()[:16]


def _reap_and_settle(actors: Actors) -> None:
    connection = actors.connection
    arrange.claim(connection, owner="dies", lease=MOMENT)
    outbox.reap_undispatched(connection, batch=100)
    arrange.claim(connection, owner="after", suspects=True)
    arrange.enqueue(connection, 2)
    [unanswered] = arrange.dispatch(connection, owner="hangs")
    asked_again = outbox.Terms("resend", keeps_keys=True, needed=AGO, max_attempts=5)
    [keyed] = arrange.claim(connection, owner="asks", lease=MOMENT)
    outbox.authorize(connection, [outbox.Asked(keyed.claim, ())], asked_again)
    outbox.reap_keyed(connection, provider="resend", batch=100, max_attempts=5)
    outbox.reap_dispatched(connection, batch=100, grace=AGO, max_attempts=5)
    claim = unanswered.claim
    outbox.settle_accepted(
        connection, message_id=claim.message_id, attempt=claim.attempt, provider_message_id="p-9"
    )
    outbox.expire_waiting(connection, batch=100)
    outbox.backlog(connection)
    outbox.backlog_by_class(connection)
    outbox.finished_lately(connection, window=timedelta(hours=1))


def _probe_and_pace(actors: Actors) -> None:
    connection = actors.connection
    message_id, probed = arrange.enqueue(connection, 2)
    gate.note(connection, "ses", message_id, Unreachable("refused"), age=MOMENT)
    closed = {"provider": "ses", "reason": "sending_paused", "message_id": message_id}
    connection.execute(closing.CLOSE, closed | {"pause": AGO})  # the probe is due at once
    gate.look(connection, "ses")
    gate.take_probe(connection, "ses")
    outbox.waiting(connection)
    outbox.claim_probe(connection, arrange.claimant("prober"), avoid=probed)
    gate.open_gate(connection, "ses", accepted=True)
    gate.set_limit(connection, "ses", 14.0)
    gate.reserve(connection, "ses", recipients=2, within=timedelta(seconds=1))
    halving = {"provider": "ses", "message_id": message_id, "burst": AGO}
    connection.execute(pacing.HALVE_RATE, halving)
    gate.pause(connection, "ses", by="1:role/support", because="wrong template")
    gate.read(connection)
    gate.release(connection, "ses", by="1:role/support", because="mended")


def _operate(actors: Actors) -> None:
    connection = actors.connection
    [cancelled, unknown] = arrange.enqueue(connection, 2)
    outbox.cancel(connection, cancelled)
    outbox.retry(connection, cancelled)
    outbox.cancel(connection, cancelled)
    outbox.count_retriable(connection, outbox.Wanted(reason="cancelled"))
    outbox.retry_many(connection, outbox.Wanted(reason="cancelled"), limit=100)
    named = outbox.claim_named(connection, arrange.claimant("op"), [unknown], arrange.ROOM)
    arrange.authorize(connection, *(message.claim for message in named))
    outbox.reap_dispatched(connection, batch=100, grace=AGO, max_attempts=1)
    outbox.resolve(connection, unknown, as_sent=True, grace=AGO)
    outbox.search(connection, outbox.Wanted(status="sent"), limit=100)
    outbox.search(connection, outbox.Wanted(unknown=True), limit=100)
    outbox.find(connection, unknown)


def _list_addresses(actors: Actors) -> None:
    connection = actors.connection
    suppression.note_hard(connection, [DIGEST], at=None)
    suppression.note_complaint(connection, [DIGEST])
    for number in range(noting.SOFT_LIMIT):
        suppression.note_soft(connection, [b"s" * 32], event=bytes([number]) * 32, at=None)
    suppression.note_delivery(connection, [b"s" * 32], at=None)
    suppression.put(connection, DIGEST, expires_at=FAR)
    suppression.find(connection, DIGEST)
    suppression.page(connection, after=None, reason=None, limit=100)
    suppression.delete(connection, DIGEST, reason="manual")


def _retain(actors: Actors) -> None:
    database = actors.application
    key = f"attachments/uploads/{_tag(migrations.APPLICATION_ROLE)}/1"
    upload = AttachmentReference("a.pdf", "application/pdf", key, "v1", 3, b"s" * 32)
    [message_id] = arrange.enqueue(actors.connection, attachments=[upload])
    outbox.cancel(actors.connection, message_id)
    suppression.purge(actors.connection, chunk=100)
    spent = idempotency.Key(b"o" * 32, b"r" * 32)
    idempotency.begin(actors.connection, spent, lifetime=MOMENT)
    limits.take(actors.connection, b"w" * 32, window=MOMENT)
    _archive(actors, duties.Lease(database, "archive"))
    rules = retention.Rules(redact_after=AGO)
    with database.transaction() as connection:
        asked = {"age": AGO, "redact_after": rules.redact_after, "window": AGO}
        connection.execute(rehearsing.REHEARSE, asked)
        connection.execute(retention.LOCK, {"key": 1})
        outbox.redact(connection, age=AGO, chunk=1)
        outbox.erase(connection, "nobody@example.com", after=None, page=1_000)
        outbox.old_pending(connection, age=AGO)
        connection.execute(retention.PURGE_TOKENS, {"chunk": 100})
        outbox.purge(connection, age=AGO, chunk=100)
        connection.execute(retention.PURGE_KEYS, {"chunk": 100})
        connection.execute(retention.PURGE_WINDOWS, {"chunk": 100})
    # Their room deletes the objects between the two.
    connection = actors.connection
    noted = connection.execute(deleting.NOTED, {"after": 0, "limit": 100}).fetchall()
    connection.execute(deleting.FORGET, {"ids": [row["id"] for row in noted]})
    seen = {"keys": [key], "versions": ["v1"], "moments": [FAR], "age": AGO}
    connection.execute(orphans.ORPHANS, seen)


def _archive(actors: Actors, lease: duties.Lease) -> None:
    """A chunk is chosen twice, by the run that dies and by the next; its rows stay here."""
    connection = actors.connection
    lease.take()
    lease.hold(connection)
    ending.end(connection)
    ending.seconds_since_end(connection)
    duties.position(connection, "archive")
    duties.move(connection, "archive", "")
    outbox.next_chunk(connection, age=AGO, chunk=2)
    chunk = outbox.next_chunk(connection, age=AGO, chunk=2)
    if chunk is None:
        raise AssertionError("nothing has finished")
    outbox.read_chunk(connection, chunk, age=AGO)
    with actors.application.transaction() as running:
        outbox.purge_chunk(running, chunk, [])
    connection.execute(archiving.LAST_DAY, {"age": AGO})
    connection.execute(erasing.ACCOUNT, {"address": "nobody@example.com"})
    lease.give_back()


def _migrate(actors: Actors) -> None:
    """The migrations' own statements; that a whole older release leaves a newer database alone has
    tests of its own."""
    connection = actors.owner
    key = {"key": 1}
    connection.execute(migrations.SESSION, {"patience": "1000ms"})
    connection.execute(migrations.LOCK, key)
    connection.execute(migrations.BOOTSTRAP)
    connection.execute(migrations.LEDGER)
    connection.execute(migrations.NOTE, {"name": "functions/none.sql", "sha256": DIGEST})
    connection.execute(migrations.UNLOCK, key)
