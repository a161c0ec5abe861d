"""Sending to what the attempt made of it; fenced by owner and attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors
from postlease.outbox import arrays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import Settlement

# Each id is looked up by itself, see dispatching. `id = ANY` beside the join: a join alone may be
# answered by reading the whole table, once statistics say that almost nothing is `sending`.
RECORD: LiteralString = """-- outbox.record
WITH held AS MATERIALIZED (
    SELECT told.*
    FROM (
        SELECT * FROM unnest(
            %(ids)s::uuid[], %(owners)s::text[], %(attempts)s::integer[], %(statuses)s::text[],
            %(reasons)s::text[], %(refunds)s::integer[], %(closings)s::boolean[],
            %(outcomes)s::text[], %(codes)s::text[], %(provider_ids)s::text[], %(versions)s::text[],
            %(delays)s::interval[])
            AS t (id, owner, attempt, status, reason, refund, closing, outcome, code, provider_id,
                  version, delay)
        ORDER BY t.id
    ) AS told
    CROSS JOIN LATERAL (
        SELECT FROM postlease.email_messages AS m
        WHERE m.id = told.id
          AND m.status = 'sending'
          AND m.lease_owner = told.owner
          AND m.attempt_count = told.attempt
        FOR NO KEY UPDATE
    ) AS locked
)
UPDATE postlease.email_messages AS m
SET status = h.status,
    failure_reason = h.reason,
    refunded_count = m.refunded_count + h.refund,
    attempts = postlease.attempts_with(m, h.outcome, h.code, h.provider_id, h.refund = 1),
    available_at = CASE h.status WHEN 'pending' THEN now() + h.delay ELSE m.available_at END,
    dispatched_at = CASE h.status WHEN 'pending' THEN NULL ELSE m.dispatched_at END,
    provider_message_id = h.provider_id,
    keyed_since = CASE h.status WHEN 'pending' THEN m.keyed_since END,
    blocked_at = CASE WHEN h.closing THEN now() ELSE m.blocked_at END,
    blocked_as = CASE WHEN h.closing THEN m.provider || ' ' || h.code ELSE m.blocked_as END,
    template_version = coalesce(h.version, m.template_version),
    sent_at = CASE h.status WHEN 'sent' THEN now() END,
    finished_at = CASE h.status WHEN 'pending' THEN NULL ELSE now() END,
    lease_owner = NULL,
    claimed_at = NULL,
    lease_expires_at = NULL
FROM held AS h
WHERE m.id = h.id AND m.id = ANY (%(ids)s::uuid[])
RETURNING m.id
"""

RECORDED_BEFORE: LiteralString = """-- outbox.recorded_before
SELECT m.id
FROM postlease.email_messages AS m
WHERE m.id = ANY (%(ids)s::uuid[])
  AND m.attempts @> jsonb_build_array(jsonb_build_object(
      'owner', (%(owners)s::text[])[array_position(%(ids)s::uuid[], m.id)],
      'attempt', (%(attempts)s::integer[])[array_position(%(ids)s::uuid[], m.id)],
      'outcome', (%(outcomes)s::text[])[array_position(%(ids)s::uuid[], m.id)]))
"""


def record(connection: Connection, settlements: Sequence[Settlement]) -> frozenset[UUID]:
    """Write each settlement whose claim still holds and commit; answers the messages recorded.

    No message may stand in settlements twice. A settlement that an earlier, unanswered call wrote
    already counts as recorded, so repeating is safe. A message that is missing from the answer has
    passed on to somebody else and was not touched: stand down.
    """
    parameters = {
        "ids": arrays.uuids(s.claim.message_id for s in settlements),
        "owners": arrays.texts(s.claim.owner for s in settlements),
        "attempts": arrays.integers(s.claim.attempt for s in settlements),
        "statuses": arrays.texts(s.status for s in settlements),
        "reasons": arrays.texts(s.failure_reason for s in settlements),
        "refunds": arrays.integers(int(s.refunded) for s in settlements),
        "closings": arrays.booleans(s.closed_gate for s in settlements),
        "outcomes": arrays.texts(s.outcome for s in settlements),
        "codes": arrays.texts(s.code for s in settlements),
        "provider_ids": arrays.texts(s.provider_message_id for s in settlements),
        "versions": arrays.texts(s.template_version for s in settlements),
        "delays": arrays.intervals(s.delay for s in settlements),
    }
    with translated_errors():
        recorded = {row["id"] for row in connection.execute(RECORD, parameters)}
        if len(recorded) < len(settlements):
            recorded |= {row["id"] for row in connection.execute(RECORDED_BEFORE, parameters)}
    return frozenset(recorded)
