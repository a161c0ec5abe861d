"""The last check of eligibility, and the mark that tells "never left" from "may have left"."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, LiteralString, TypeAlias

from postlease.database import translated_errors
from postlease.outbox import arrays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import Claim
from postlease.model.values import value

TOKEN_LIFE_LEFT = timedelta(minutes=5)
"""A link that dies before its reader can open it is not sent."""

NO_ROOM_WAIT = timedelta(seconds=10)
"""What is too slow to prepare now is not tried again at once."""

KEY_LIFETIME = timedelta(hours=23)
"""Providers keep a key for 24 hours; an hour pays for clocks and waits."""

Word: TypeAlias = Literal[
    "go", "expired", "superseded", "suppressed", "outcome_unknown", "attempts_exhausted", "no_room"
]

# Repeating it is safe: a claim that was told to go is told so again as long as it is held.
# A LATERAL that locks is never flattened into a join, so each id is looked up by itself, in order.
AUTHORIZE: LiteralString = """-- outbox.authorize
WITH held AS MATERIALIZED (
    SELECT h.*
    FROM (
        SELECT * FROM unnest(%(ids)s::uuid[], %(owners)s::text[], %(attempts)s::integer[])
            AS a (id, owner, attempt)
        ORDER BY a.id
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT m.id, m.token_id, m.priority, m.expires_at, m.lease_expires_at,
               cardinality(m.to_addresses) AS to_count,
               -- The account that a note tells of was closed, or has another address. Not an
               -- EXISTS, which the planner may answer by reading all users.
               m.priority = 0 AND m.template = 'account_exists' AND (
                   SELECT u.id FROM postlease.users AS u
                   WHERE u.email_canonical = lower(m.to_addresses[1] COLLATE "C") COLLATE "default"
               ) IS NULL AS is_baseless,
               -- An outcome that nobody learned may be asked for again under its key, or not at
               -- all.
               m.keyed_since IS NOT NULL AND (
                   NOT %(keeps_keys)s OR m.provider <> %(provider)s
                   OR m.keyed_since <= now() - %(key_lifetime)s::interval) AS key_is_lost,
               m.delivery = 'at_least_once' AND m.unknown_count = 0 AS may_repeat,
               m.attempt_count - m.refunded_count > coalesce(m.max_attempts, %(max_attempts)s)
                   AS is_used_up,
               -- Twice it took too long before: the third time it is the message's own doing.
               m.attempts->-1->>'outcome' = 'no_room' AND m.attempts->-2->>'outcome' = 'no_room'
                   AS is_slow
        FROM postlease.email_messages AS m
        WHERE m.id = asked.id
          AND m.status = 'sending'
          AND m.lease_owner = asked.owner
          AND m.attempt_count = asked.attempt
        FOR NO KEY UPDATE
    ) AS h
), struck AS (
    SELECT h.id, array_agg(a.digest) AS digests, count(*) FILTER (WHERE a.is_to) AS to_count
    FROM unnest(%(addressee_ids)s::uuid[], %(digests)s::bytea[], %(is_to)s::boolean[])
        AS a (id, digest, is_to)
    JOIN held AS h ON h.id = a.id
    -- An address may be listed for several reasons and is struck once.
    WHERE EXISTS (
        SELECT FROM postlease.suppressions AS s
        WHERE s.address_digest = a.digest
          AND (s.expires_at IS NULL OR s.expires_at > now())
          AND NOT (s.reason = 'complaint' AND h.priority = 0))
    GROUP BY h.id
), judged AS (
    SELECT h.id, h.key_is_lost, h.is_slow, coalesce(s.digests, '{}') AS struck, CASE
        WHEN t.superseded_at IS NOT NULL OR t.redeemed_at IS NOT NULL THEN 'superseded'
        WHEN h.is_baseless THEN 'superseded'
        WHEN h.expires_at <= now() THEN 'expired'
        WHEN t.expires_at <= now() + %(token_life_left)s::interval THEN 'expired'
        WHEN s.to_count = h.to_count THEN 'suppressed'
        WHEN h.key_is_lost AND NOT h.may_repeat THEN 'outcome_unknown'
        WHEN h.is_used_up THEN 'attempts_exhausted'
        WHEN h.lease_expires_at < now() + %(needed)s::interval THEN 'no_room'
        ELSE 'go' END AS verdict
    FROM held AS h
    LEFT JOIN struck AS s ON s.id = h.id
    LEFT JOIN postlease.verification_tokens AS t ON t.id = h.token_id
)
UPDATE postlease.email_messages AS m
SET status = CASE j.verdict
        WHEN 'go' THEN 'sending' WHEN 'no_room' THEN 'pending' ELSE 'failed' END,
    failure_reason = CASE WHEN j.verdict NOT IN ('go', 'no_room') THEN j.verdict END,
    refunded_count = m.refunded_count
        + CASE WHEN j.verdict = 'no_room' AND NOT coalesce(j.is_slow, false) THEN 1 ELSE 0 END,
    available_at = CASE j.verdict
        WHEN 'no_room' THEN now() + %(no_room_wait)s::interval ELSE m.available_at END,
    attempts = CASE j.verdict
        WHEN 'go' THEN m.attempts
        ELSE postlease.attempts_with(m, j.verdict, NULL, NULL,
            j.verdict = 'no_room' AND NOT coalesce(j.is_slow, false)) END,
    dispatched_at = CASE j.verdict WHEN 'go' THEN now() END,
    unknown_count = m.unknown_count
        + CASE WHEN j.verdict = 'go' AND j.key_is_lost THEN 1 ELSE 0 END,
    keyed_since = CASE WHEN j.verdict = 'go' AND j.key_is_lost THEN NULL ELSE m.keyed_since END,
    provider = CASE j.verdict WHEN 'go' THEN %(provider)s ELSE m.provider END,
    lease_owner = CASE j.verdict WHEN 'go' THEN m.lease_owner END,
    claimed_at = CASE j.verdict WHEN 'go' THEN m.claimed_at END,
    lease_expires_at = CASE j.verdict WHEN 'go' THEN m.lease_expires_at END,
    finished_at = CASE WHEN j.verdict NOT IN ('go', 'no_room') THEN now() END
FROM judged AS j
WHERE m.id = j.id AND m.id = ANY (%(ids)s::uuid[])
RETURNING m.id, j.verdict, j.struck
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a run sends: through whom, and what a call needs.

    keeps_keys: provider honours idempotency keys. needed: what must be left of a lease.
    max_attempts: of a message that has no number of its own.
    """

    provider: str
    keeps_keys: bool
    needed: timedelta
    max_attempts: int


@value
class Addressee:
    """One address of a message as the suppression list knows it."""

    digest: bytes = field(repr=False)
    is_to: bool


@value
class Asked:
    """A claim that asks to be sent, with its addressees."""

    claim: Claim
    addressees: tuple[Addressee, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, already written. struck: digests to leave out of the envelope."""

    word: Word
    struck: frozenset[bytes] = field(repr=False)


_GO = Verdict("go", frozenset())


def authorize(connection: Connection, asked: Sequence[Asked], terms: Terms) -> dict[UUID, Verdict]:
    """Settle every claim asked and commit; no message may stand in asked twice.

    `go`: the dispatch mark is set, and the call may leave if it starts within the lease.
    `expired`, `superseded`, `suppressed`, `attempts_exhausted`: failed with that reason.
    `outcome_unknown`: an earlier attempt was never answered, its key is lost and the policy allows
    no repeat; failed. `no_room`: too little is left of the lease, so the message is pending again,
    refunded but for the third time in a row. A message that is missing from the answer is not ours
    any more.
    """
    claims = [entry.claim for entry in asked]
    addressees = [(e.claim.message_id, a) for e in asked for a in e.addressees]
    parameters = {
        "ids": arrays.uuids(claim.message_id for claim in claims),
        "owners": arrays.texts(claim.owner for claim in claims),
        "attempts": arrays.integers(claim.attempt for claim in claims),
        "addressee_ids": arrays.uuids(message_id for message_id, _ in addressees),
        "digests": arrays.octets(addressee.digest for _, addressee in addressees),
        "is_to": arrays.booleans(addressee.is_to for _, addressee in addressees),
        "provider": terms.provider,
        "keeps_keys": terms.keeps_keys,
        "key_lifetime": KEY_LIFETIME,
        "max_attempts": terms.max_attempts,
        "no_room_wait": NO_ROOM_WAIT,
        "needed": terms.needed,
        "token_life_left": TOKEN_LIFE_LEFT,
    }
    with translated_errors():
        rows = connection.execute(AUTHORIZE, parameters).fetchall()
    return {
        row["id"]: _GO
        if row["verdict"] == "go" and not row["struck"]
        else Verdict(row["verdict"], frozenset(row["struck"]))
        for row in rows
    }
