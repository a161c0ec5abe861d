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

# `id = ANY` and array_position, not a join with unnest(): once statistics say that almost nothing
# is `sending`, the planner scans the whole table for such a join.
RECORD: LiteralString = """-- outbox.record
WITH held AS MATERIALIZED (
    SELECT m.id, array_position(%(ids)s::uuid[], m.id) AS place
    FROM postlease.email_messages AS m
    WHERE m.id = ANY (%(ids)s::uuid[])
      AND m.status = 'sending'
      AND m.lease_owner = (%(owners)s::text[])[array_position(%(ids)s::uuid[], m.id)]
      AND m.attempt_count = (%(attempts)s::integer[])[array_position(%(ids)s::uuid[], m.id)]
    ORDER BY m.id
    FOR NO KEY UPDATE
)
UPDATE postlease.email_messages AS m
SET status = (%(statuses)s::text[])[h.place],
    failure_reason = (%(reasons)s::text[])[h.place],
    refunded_count = m.refunded_count + (%(refunds)s::integer[])[h.place],
    attempts = postlease.attempts_with(
        m, (%(outcomes)s::text[])[h.place], (%(codes)s::text[])[h.place],
        (%(provider_ids)s::text[])[h.place], (%(refunds)s::integer[])[h.place] = 1),
    available_at = CASE (%(statuses)s::text[])[h.place]
        WHEN 'pending' THEN now() + (%(delays)s::interval[])[h.place] ELSE m.available_at END,
    dispatched_at = CASE (%(statuses)s::text[])[h.place]
        WHEN 'pending' THEN NULL ELSE m.dispatched_at END,
    provider_message_id = (%(provider_ids)s::text[])[h.place],
    keyed_since = CASE (%(statuses)s::text[])[h.place] WHEN 'pending' THEN m.keyed_since END,
    blocked_at = CASE WHEN (%(closings)s::boolean[])[h.place] THEN now() ELSE m.blocked_at END,
    blocked_as = CASE WHEN (%(closings)s::boolean[])[h.place]
        THEN m.provider || ' ' || (%(codes)s::text[])[h.place] ELSE m.blocked_as END,
    template_version = coalesce((%(versions)s::text[])[h.place], m.template_version),
    sent_at = CASE (%(statuses)s::text[])[h.place] WHEN 'sent' THEN now() END,
    finished_at = CASE (%(statuses)s::text[])[h.place] WHEN 'pending' THEN NULL ELSE now() END,
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
