"""Pending to sending: taking a lease on what is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from psycopg.rows import tuple_row

from postlease.database import translated_errors
from postlease.outbox import arrays
from postlease.outbox.claimed_rows import claimed_message
from postlease.outbox.floors import Floors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import ClaimedMessage

# Three probes in the order of the classes, each an equality on priority, so that neither history
# nor far-future rows of another class are read. The floors skip entries that are dead but not yet
# vacuumed. The ctid array keeps the planner from joining its way into claiming more than asked.
_DUE: LiteralString = """-- outbox.claim
WITH due AS MATERIALIZED (
    SELECT picked.*
    FROM (VALUES
        (0::smallint, '-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid),
        (50::smallint, %(floor_50_at)s::timestamptz, %(floor_50_id)s::uuid),
        (100::smallint, %(floor_100_at)s::timestamptz, %(floor_100_id)s::uuid)
    ) AS class (priority, floor_at, floor_id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
        FROM postlease.email_messages AS m
        WHERE m.finished_at IS NULL
          AND m.priority = class.priority
          AND (m.available_at, m.id) > (class.floor_at, class.floor_id)
          AND m.available_at <= now()
          AND m.status = 'pending'
          AND (m.reaped_count > 0) = %(suspects)s
          AND (m.attachment_bytes = 0 OR NOT %(plain)s)
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
    SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
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
    SELECT picked.*
    FROM (VALUES (0::smallint), (50::smallint), (100::smallint)) AS class (priority)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS tid, m.priority, m.available_at, m.id, m.attachment_bytes AS bytes
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

# Attachments are held in memory from the claim to the answer. Only so many messages are taken, from
# the most urgent on, as fit into the room that is left: whoever does not fit is waited for by all
# behind it, so that no stream of small ones passes a large one. One that fits nowhere goes alone.
_TAKE: LiteralString = """, claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending',
        lease_owner = %(owner)s,
        claimed_at = now(),
        lease_expires_at = now() + %(lease)s::interval,
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(
        SELECT summed.tid
        FROM (
            SELECT due.tid, due.bytes,
                   sum(due.bytes) OVER (ORDER BY due.priority, due.available_at, due.id) AS total
            FROM due
        ) AS summed
        WHERE summed.total <= %(room)s::bigint
           OR (summed.total = summed.bytes AND %(alone)s)
    )) AND m.status = 'pending'
    RETURNING m.*
)
SELECT c.id, c.attempt_count, c.priority, c.available_at, c.created_at, c.lease_expires_at,
       c.template, c.locale, c.delivery,
       coalesce(c.max_attempts, %(max_attempts)s) - (c.attempt_count - c.refunded_count)
           AS attempts_left,
       c.attempt_count - c.refunded_count AS counted_attempts, c.retry_count,
       c.parameters::text AS parameters,
       c.to_addresses, c.cc_addresses, c.bcc_addresses,
       nullif(c.recipient_names, '{}')::text AS recipient_names, c.from_address, c.reply_to,
       nullif(c.tags, '{}')::text AS tags,
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


@dataclass(frozen=True, slots=True)
class Room:
    """How many more bytes of attachments a run may hold. alone: it holds none yet."""

    bytes: int
    alone: bool

    def takes(self, size: int) -> bool:
        """Whether so many bytes may be claimed: what is too large for any room goes alone."""
        return size <= self.bytes or self.alone

    def parameters(self) -> dict[str, object]:
        """Its part of a claim's parameters."""
        return {"room": self.bytes, "alone": self.alone}


_ALONE = Room(0, alone=True)


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
    room: Room,
    floors: Floors,
    suspects: bool = False,
    plain: bool = False,
) -> list[ClaimedMessage]:
    """Lease up to slots due messages to claimant, most urgent first, and commit.

    The attempt is spent here, before anything is sent: a message that kills its sender ends up
    failed, not looping. Attachments for which there is no room are left, and all that comes behind
    them; plain claims only what has none and needs no room, and wants floors of its own. suspects
    claims the messages that a lost worker held before instead of all others; claim those one at a
    time with nothing else in flight. An empty list means that nothing is due, somebody else has it,
    there is no room, or the provider's gate is closed.
    """
    from_start = suspects or floors.at_start()
    parameters = {
        **claimant.parameters(),
        **(_ALONE if suspects else room).parameters(),
        "slots": slots,
        "suspects": suspects,
        "plain": plain,
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
                **_ALONE.parameters(),
                "suspects": suspects,
                "avoid": left_out,
            }
            if found := _run(connection, CLAIM_PROBE, claimant, parameters):
                return found[0]
    return None


def claim_named(
    connection: Connection, claimant: Claimant, ids: Sequence[UUID], room: Room
) -> list[ClaimedMessage]:
    """Lease those of ids that are due, and commit. What somebody else has is left out, quietly.

    So is what there is no room for.
    """
    parameters = {
        **claimant.parameters(),
        **room.parameters(),
        "ids": arrays.uuids(ids),
        "slots": len(ids),
    }
    return _run(connection, CLAIM_NAMED, claimant, parameters)


def _run(
    connection: Connection,
    statement: LiteralString,
    claimant: Claimant,
    parameters: dict[str, object],
) -> list[ClaimedMessage]:
    with translated_errors():
        cursor = connection.cursor(row_factory=tuple_row)
        rows = cursor.execute(statement, parameters).fetchall()
    messages = [claimed_message(row, claimant.owner) for row in rows]
    # RETURNING has no order of its own.
    messages.sort(key=lambda m: (m.priority, m.available_at, m.claim.message_id.int))
    return messages
