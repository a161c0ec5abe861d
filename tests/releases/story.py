"""One of everything that this code does with its database, so that each statement is said once.

A new statement wants its place here: `test_every_statement_is_part_of_the_story` names it. What
lies in the past comes by parameters (a lease of a microsecond, a grace below nothing), since
arranged rows would be no release's statements.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from postlease import (
    accounts,
    gate,
    idempotency,
    limits,
    migrations,
    outbox,
    retention,
    suppression,
    tokens,
)
from postlease.accounts import ground
from postlease.attachments import deleting
from postlease.gate import closing, pacing
from postlease.messages import ground as messages_ground
from postlease.model import AttachmentReference, Settlement, Unreachable, event_id
from postlease.suppression import noting
from tests import arrange

if TYPE_CHECKING:
    import psycopg

    from postlease.database import Connection, Database
    from postlease.model import ClaimedMessage, TokenFacts

MOMENT = timedelta(microseconds=1)
AGO = timedelta(days=-1)
FAR = datetime(2999, 1, 1, tzinfo=UTC)
DIGEST = b"d" * 32
CLIENT = "203.0.113.7"
PDF = {"filename": "a.pdf", "content_type": "application/pdf", "size": 3, "sha256": "0f" * 32}

ENQUEUE_EMAIL: LiteralString = """-- producer.enqueue_email
SELECT postlease.enqueue_email(
    template => 'receipt',
    to_addresses => ARRAY['grace@example.com'],
    parameters => '{"order_number": "A-1", "total": "12.00"}',
    cc_addresses => ARRAY['cc@example.com'],
    bcc_addresses => ARRAY['bcc@example.com'],
    names => '{"grace@example.com": "Grace"}',
    locale => 'de',
    priority => 100,
    delivery => 'at_most_once',
    send_at => '2026-01-01 00:00+00',
    expires_at => %(expires_at)s::timestamptz,
    idempotency_key => %(key)s,
    cancel_scope => 'order A-1',
    from_address => 'shop@example.com',
    reply_to => 'help@example.com',
    tags => '{"kind": "receipt"}',
    attachments => jsonb_build_array(%(pdf)s::jsonb || jsonb_build_object(
        'storage_ref', 'attachments/kept/' || postlease.attachments_tag() || '/terms.pdf'))
) AS id
"""
ENQUEUE_IN_PLACES: LiteralString = """-- producer.enqueue_email_in_places
SELECT postlease.enqueue_email('receipt', ARRAY['grace@example.com'], '{"total": "1.00"}') AS id
"""
ENQUEUE_EMAILS: LiteralString = """-- producer.enqueue_emails
SELECT "position", id FROM postlease.enqueue_emails(%(messages)s) ORDER BY "position"
"""
ATTACHMENTS_TAG: LiteralString = """-- producer.attachments_tag
SELECT length(postlease.attachments_tag()) AS characters
"""
OF_PRODUCERS = (ENQUEUE_EMAIL, ENQUEUE_IN_PLACES, ENQUEUE_EMAILS, ATTACHMENTS_TAG)


@dataclass(frozen=True, slots=True)
class Actors:
    """Who speaks: the functions' role, a member of the producers' role, the migrating role.

    The tables are empty, and the environment is a deployment's, with codes on.
    """

    application: Database
    producer: psycopg.Connection[Any]
    owner: Connection

    @property
    def connection(self) -> Connection:
        """The functions' connection, for what commits by itself."""
        return self.application.connection()


def tell(actors: Actors) -> None:
    """The whole story."""
    _produce(actors)
    _take_messages(actors)
    _deliver(actors)
    _reap_and_settle(actors)
    _probe_and_pace(actors)
    _operate(actors)
    _sign_up_and_verify(actors)
    _reset_and_change(actors)
    _list_addresses(actors)
    _retain(actors)
    _migrate(actors)


def _produce(actors: Actors) -> None:
    connection = actors.producer
    whole = {"expires_at": FAR, "key": "A-1", "pdf": Jsonb(PDF)}
    for _ in range(2):  # the same key, the same message
        connection.execute(ENQUEUE_EMAIL, whole)
    connection.execute(ENQUEUE_IN_PLACES)
    one = {"template": "receipt", "to_addresses": ["a@example.com"], "idempotency_key": "A-2"}
    connection.execute(ENQUEUE_EMAILS, {"messages": Jsonb([one, one | {"idempotency_key": "A-3"}])})
    connection.execute(ATTACHMENTS_TAG)


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
        _send(actors, arrange.claim(connection, 2, owner=owner, floors=floors))
    [message_id] = arrange.enqueue(connection)
    named = outbox.claim_named(connection, arrange.claimant("bell"), [message_id], arrange.ROOM)
    _send(actors, named)
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


def _send(actors: Actors, claimed: list[ClaimedMessage]) -> None:
    listed = outbox.Addressee(DIGEST, is_to=True)
    arrange.authorize(
        actors.connection, *(message.claim for message in claimed), addressees=(listed,)
    )
    outbox.record(
        actors.connection,
        [arrange.sent(m.claim, f"p-{place}") for place, m in enumerate(claimed)],
    )


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


def _token(actors: Actors, template: str) -> tuple[TokenFacts, UUID]:
    """The token in the newest mail of that template, which leaves now."""
    connection = actors.connection
    found = outbox.search(connection, outbox.Wanted(status="pending", template=template), limit=1)
    claimed = outbox.claim_named(
        connection, arrange.claimant(template), [found[0].id], arrange.ROOM
    )
    _send(actors, claimed)
    token = claimed[0].token
    assert token
    return token, token.user_id


def _sign_up_and_verify(actors: Actors) -> None:
    database = actors.application
    ring = ground.key_ring()
    for _ in range(2):
        signed = accounts.sign_up(database, email="ada@example.com", idempotency_key='"ada"')
    accounts.event_status(database, signed.event_id)
    accounts.event_status(database, event_id(UUID(int=1)))
    accounts.resend_verification(database, email="ada@example.com")
    accounts.resend_verification(database, email="nobody@example.com")
    facts, _ = _token(actors, "verify_email")
    for _ in range(2):
        accounts.verify(database, token=tokens.derive_again(ring, facts))
    accounts.resend_verification(database, email="ada@example.com")  # a note, undone or kept
    accounts.sign_up(database, email="alan@example.com", locale="de")
    facts, _ = _token(actors, "verify_email")
    accounts.try_code(database, email="alan@example.com", code=tokens.code_again(ring, facts))


def _reset_and_change(actors: Actors) -> None:
    database = actors.application
    ring = ground.key_ring()
    accounts.request_reset(database, email="ada@example.com")
    accounts.request_reset(database, email="ada@example.com")
    facts, user_id = _token(actors, "reset_password")
    text = tokens.derive_again(ring, facts)
    for _ in range(2):
        accounts.redeem_reset(database, token=text, idempotency_key='"r"', principal="app")
    accounts.change_address(database, str(user_id), email="Ada@example.com")
    accounts.change_address(database, str(user_id), email="lovelace@example.com")
    accounts.revoke_resets(database, str(user_id))
    accounts.close(database, str(user_id))


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
    with database.transaction() as connection:
        connection.execute(retention.LOCK, {"key": 1})
        outbox.purge(connection, age=AGO, chunk=100)
        connection.execute(retention.PURGE_KEYS, {"chunk": 100})
        connection.execute(retention.PURGE_WINDOWS, {"chunk": 100})
    # Their room deletes the objects between the two.
    connection = actors.connection
    noted = connection.execute(deleting.NOTED, {"after": 0, "limit": 100}).fetchall()
    connection.execute(deleting.FORGET, {"ids": [row["id"] for row in noted]})


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
