"""Pending to sending: taking a lease on what is due."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from postlease.database import translated_errors
from postlease.model import AttachmentReference, Claim, ClaimedMessage, TokenFacts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from postlease.database import Connection, Row

_START = ("-infinity", UUID(int=0))
_FULL_LOOK_SECONDS = 5.0

# Three probes in the order of the classes, each an equality on priority, so that neither history
# nor far-future rows of another class are read. The floors skip entries that are dead but not yet
# vacuumed. The ctid array keeps the planner from joining its way into claiming more than asked.
_DUE: LiteralString = """-- outbox.claim
WITH due AS MATERIALIZED (
    SELECT picked.tid
    FROM (VALUES
        (0::smallint, '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid),
        (50::smallint, %(floor_50_at)s::timestamptz, %(floor_50_id)s::uuid),
        (100::smallint, %(floor_100_at)s::timestamptz, %(floor_100_id)s::uuid)
    ) AS class (priority, floor_at, floor_id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid
        FROM postlease.email_messages AS m
        WHERE m.finished_at IS NULL
          AND m.priority = class.priority
          AND (m.available_at, m.id) > (class.floor_at, class.floor_id)
          AND m.available_at <= now()
          AND m.status = 'pending'
          AND (m.reaped_count > 0) = %(suspects)s
        ORDER BY m.available_at, m.id
        LIMIT %(slots)s
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS picked
    WHERE NOT EXISTS (
        SELECT FROM postlease.provider_gates AS g
        WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL)
    LIMIT %(slots)s
)"""

# Whoever names messages by id finds them in no order of urgency, but only those that anybody may
# claim now: due, open to all, and not known to have cost a worker.
_NAMED: LiteralString = """-- outbox.claim_named
WITH due AS MATERIALIZED (
    SELECT m.ctid AS tid
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s::uuid[])
      AND m.available_at <= now()
      AND m.status = 'pending'
      AND m.reaped_count = 0
      AND NOT EXISTS (
        SELECT FROM postlease.provider_gates AS g
        WHERE g.provider = %(provider)s AND g.closed_at IS NOT NULL)
    ORDER BY m.id
    LIMIT %(slots)s
    FOR NO KEY UPDATE SKIP LOCKED
)"""

# Whoever probes a closed gate takes what waits longest, whatever its class: what was refused has
# just been put off, so no number of messages with troubles of their own can keep the gate closed.
_LONGEST_DUE: LiteralString = """-- outbox.claim_probe
WITH due AS MATERIALIZED (
    SELECT picked.tid
    FROM (VALUES (0::smallint), (50::smallint), (100::smallint)) AS class (priority)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.available_at, m.id
        FROM postlease.email_messages AS m
        WHERE m.finished_at IS NULL
          AND m.priority = class.priority
          AND m.available_at <= now()
          AND m.status = 'pending'
          AND (m.reaped_count > 0) = %(suspects)s
          AND m.id IS DISTINCT FROM %(avoid)s::uuid
        ORDER BY m.available_at, m.id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS picked
    ORDER BY picked.available_at, picked.id
    LIMIT 1
)"""

_TAKE: LiteralString = """, claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending',
        lease_owner = %(owner)s,
        claimed_at = now(),
        lease_expires_at = now() + %(lease)s::interval,
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(SELECT due.tid FROM due)) AND m.status = 'pending'
    RETURNING m.*
)
SELECT c.id, c.attempt_count, c.priority, c.available_at, c.created_at, c.lease_expires_at,
       c.template, c.locale, c.parameters::text AS parameters,
       c.to_addresses, c.cc_addresses, c.bcc_addresses,
       c.recipient_names, c.from_address, c.reply_to, c.tags, c.delivery, c.retry_count,
       coalesce(c.max_attempts, %(max_attempts)s) - (c.attempt_count - c.refunded_count)
           AS attempts_left,
       c.attempt_count - c.refunded_count AS counted_attempts,
       t.id AS token_id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash,
       (SELECT jsonb_agg(jsonb_build_object(
            'filename', a.filename, 'content_type', a.content_type, 'storage_ref', a.storage_ref,
            'version_id', a.version_id, 'size', a.size, 'sha256', encode(a.sha256, 'hex'),
            'content_id', a.content_id)
            ORDER BY a.position)
        FROM postlease.email_attachments AS a WHERE a.message_id = c.id) AS attachments
FROM claimed AS c
LEFT JOIN postlease.verification_tokens AS t ON t.id = c.token_id
"""

CLAIM: LiteralString = _DUE + _TAKE
CLAIM_NAMED: LiteralString = _NAMED + _TAKE
CLAIM_PROBE: LiteralString = _LONGEST_DUE + _TAKE

SUSPECTS_DUE: LiteralString = """-- outbox.suspects_due
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.reaped_count > 0
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS due
"""


WAITING: LiteralString = """-- outbox.waiting
SELECT EXISTS (
    SELECT FROM postlease.email_messages AS m
    WHERE m.finished_at IS NULL
      AND m.status = 'pending'
      AND m.available_at <= now()
) AS waiting
"""


class Floors:
    """How far each class but auth has been claimed, so that a claim starts behind dead entries.

    A look from the start is due every five seconds: it finds late commits, retries and what a
    reaper gave back.
    """

    def __init__(self) -> None:
        self._positions: dict[int, tuple[datetime | str, UUID]] = {}
        self._reset_at = time.monotonic()

    def at_start(self) -> bool:
        """Whether the next claim looks at everything that is due."""
        if time.monotonic() - self._reset_at >= _FULL_LOOK_SECONDS:
            self.reset()
        return not self._positions

    def reset(self) -> None:
        """Let the next claim look from the start."""
        self._positions.clear()
        self._reset_at = time.monotonic()

    def advance(self, messages: list[ClaimedMessage]) -> None:
        """Note the last claimed position of each class; auth mail has no floor."""
        for message in messages:
            if message.priority:
                self._positions[message.priority] = (message.available_at, message.claim.message_id)

    def parameters(self) -> dict[str, datetime | str | UUID]:
        """The positions as the claim's parameters."""
        at_50, id_50 = self._positions.get(50, _START)
        at_100, id_100 = self._positions.get(100, _START)
        return {
            "floor_50_at": at_50,
            "floor_50_id": id_50,
            "floor_100_at": at_100,
            "floor_100_id": id_100,
        }


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims, and for how long. owner must be new for every claim."""

    owner: str
    provider: str
    lease: timedelta
    max_attempts: int

    def parameters(self) -> dict[str, object]:
        """Its part of a claim's parameters."""
        return {
            "owner": self.owner,
            "provider": self.provider,
            "lease": self.lease,
            "max_attempts": self.max_attempts,
        }


def claim(
    connection: Connection,
    claimant: Claimant,
    *,
    slots: int,
    floors: Floors,
    suspects: bool = False,
) -> list[ClaimedMessage]:
    """Lease up to slots due messages to claimant, most urgent first, and commit.

    The attempt is spent here, before anything is sent: a message that kills its sender ends up
    failed, not looping. suspects claims the messages that a lost worker held before instead of all
    others; claim those one at a time with nothing else in flight. An empty list means that nothing
    is due, somebody else has it, or the provider's gate is closed.
    """
    from_start = suspects or floors.at_start()
    parameters = {
        **claimant.parameters(),
        "slots": slots,
        "suspects": suspects,
        **(Floors() if suspects else floors).parameters(),
    }
    messages = _run(connection, CLAIM, claimant, parameters)
    if not messages and not from_start:
        floors.reset()
        messages = _run(connection, CLAIM, claimant, parameters | floors.parameters())
    if not suspects:
        floors.advance(messages)
    return messages


def claim_probe(
    connection: Connection, claimant: Claimant, *, avoid: UUID | None
) -> ClaimedMessage | None:
    """Lease the one message that may pass a closed gate, and commit.

    Call it only with the probe in hand and nothing in flight. It is the one that waits longest.
    avoid is the message that closed the gate: it is taken only if nothing else is due. So is a
    message that a lost worker held before.
    """
    for left_out in (avoid, None) if avoid else (None,):
        for suspects in (False, True):
            parameters = {
                **claimant.parameters(),
                "suspects": suspects,
                "avoid": left_out,
            }
            if found := _run(connection, CLAIM_PROBE, claimant, parameters):
                return found[0]
    return None


def claim_named(
    connection: Connection, claimant: Claimant, ids: Sequence[UUID]
) -> list[ClaimedMessage]:
    """Lease those of ids that are due, and commit. What somebody else has is left out, quietly."""
    parameters = {**claimant.parameters(), "ids": list(ids), "slots": len(ids)}
    return _run(connection, CLAIM_NAMED, claimant, parameters)


def _run(
    connection: Connection,
    statement: LiteralString,
    claimant: Claimant,
    parameters: dict[str, object],
) -> list[ClaimedMessage]:
    with translated_errors():
        rows = connection.execute(statement, parameters).fetchall()
    messages = [_claimed(row, claimant.owner) for row in rows]
    # RETURNING has no order of its own.
    messages.sort(key=lambda m: (m.priority, m.available_at, m.claim.message_id))
    return messages


def suspects_due(connection: Connection) -> bool:
    """Whether a message waits that a lost worker held before."""
    with translated_errors():
        row = connection.execute(SUSPECTS_DUE).fetchone()
    return bool(row and row["due"])


def waiting(connection: Connection) -> bool:
    """Whether any message is due, whatever keeps it from being claimed."""
    with translated_errors():
        row = connection.execute(WAITING).fetchone()
    return bool(row and row["waiting"])


def _claimed(row: Row, owner: str) -> ClaimedMessage:
    return ClaimedMessage(
        claim=Claim(row["id"], owner, row["attempt_count"]),
        priority=row["priority"],
        available_at=row["available_at"],
        created_at=row["created_at"],
        lease_expires_at=row["lease_expires_at"],
        template=row["template"],
        locale=row["locale"],
        delivery=row["delivery"],
        retry_count=row["retry_count"],
        attempts_left=row["attempts_left"],
        counted_attempts=row["counted_attempts"],
        parameters_json=row["parameters"],
        to_addresses=tuple(row["to_addresses"]),
        cc_addresses=tuple(row["cc_addresses"]),
        bcc_addresses=tuple(row["bcc_addresses"]),
        recipient_names=row["recipient_names"],
        from_address=row["from_address"],
        reply_to=row["reply_to"],
        tags=row["tags"],
        token=_token(row),
        attachments=tuple(_attachment(entry) for entry in row["attachments"] or ()),
    )


def _token(row: Row) -> TokenFacts | None:
    if row["token_id"] is None:
        return None
    return TokenFacts(
        id=row["token_id"],
        user_id=row["user_id"],
        purpose=row["purpose"],
        version=row["version"],
        key_id=row["key_id"],
        token_hash=row["token_hash"],
    )


def _attachment(entry: dict[str, Any]) -> AttachmentReference:
    return AttachmentReference(**entry | {"sha256": bytes.fromhex(entry["sha256"])})
