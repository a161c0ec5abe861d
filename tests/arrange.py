"""Rows as the product makes them, and the product's calls with a test's usual arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import sql

from postlease import outbox
from postlease.model import Settlement

if TYPE_CHECKING:
    from postlease.database import Connection
    from postlease.model import Claim, ClaimedMessage

LEASE = timedelta(seconds=45)
NEEDED = timedelta(seconds=23)
GRACE = timedelta(seconds=120)
MAX_ATTEMPTS = 5
ROOM = outbox.Room(24_000_000, alone=True)


def enqueue(connection: Connection, number: int = 1, **arguments: Any) -> list[UUID]:
    """Number messages of the receipt template, each to an address of its own."""
    return [
        outbox.enqueue(
            connection,
            **{
                "template": "receipt",
                "to": [f"reader{place}@example.com"],
                "parameters": {"order_number": f"A-{place}", "total": "12.00"},
            }
            | arguments,
        )
        for place in range(number)
    ]


def user(owner: Connection, email: str = "reader@example.com", *, verified: bool = False) -> UUID:
    """A user's id."""
    row = owner.execute(
        "INSERT INTO postlease.users (email, email_canonical, locale, verified_at)"
        " VALUES (%(email)s, lower(%(email)s), 'en', CASE WHEN %(verified)s THEN now() END)"
        " RETURNING id",
        {"email": email, "verified": verified},
    ).fetchone()
    assert row
    return UUID(str(row["id"]))


def token(
    owner: Connection,
    user_id: UUID,
    *,
    version: int = 1,
    life: timedelta = timedelta(hours=24),
) -> UUID:
    """A live verification token's id; no real link hashes to it."""
    row = owner.execute(
        "INSERT INTO postlease.verification_tokens"
        " (user_id, purpose, version, token_hash, key_id, created_at, expires_at)"
        " VALUES (%s, 'verify_email', %s, sha256('nothing'), 'k1', now() - interval '2 days',"
        " now() + %s) RETURNING id",
        [user_id, version, life],
    ).fetchone()
    assert row
    return UUID(str(row["id"]))


def auth_message(
    owner: Connection,
    *,
    email: str = "reader@example.com",
    life: timedelta = timedelta(hours=24),
) -> tuple[UUID, UUID]:
    """A pending verification mail: its id, and its token's."""
    user_id = user(owner, email)
    token_id = token(owner, user_id, life=life)
    message_id = outbox.enqueue_auth(
        owner, template="verify_email", user_id=user_id, token_id=token_id
    )
    return message_id, token_id


def claim(
    connection: Connection,
    slots: int = 1,
    *,
    owner: str = "worker-a",
    lease: timedelta = LEASE,
    floors: outbox.Floors | None = None,
    suspects: bool = False,
    plain: bool = False,
    room: outbox.Room = ROOM,
) -> list[ClaimedMessage]:
    """Claim as a sweep does."""
    return outbox.claim(
        connection,
        claimant(owner, lease=lease),
        slots=slots,
        room=room,
        floors=floors or outbox.Floors(),
        suspects=suspects,
        plain=plain,
    )


def claimant(owner: str, *, lease: timedelta = LEASE) -> outbox.Claimant:
    """A worker of that name, sending through SES."""
    return outbox.Claimant(owner, "ses", lease, MAX_ATTEMPTS)


def authorize(
    connection: Connection,
    *claims: Claim,
    addressees: tuple[outbox.Addressee, ...] = (),
    provider: str = "ses",
    keeps_keys: bool = False,
) -> dict[UUID, outbox.Verdict]:
    """Ask to send, as a sender does."""
    asked = [outbox.Asked(claim, addressees) for claim in claims]
    terms = outbox.Terms(provider, keeps_keys, NEEDED, MAX_ATTEMPTS)
    return outbox.authorize(connection, asked, terms)


def sent(claim: Claim, provider_message_id: str = "provider-1") -> Settlement:
    """The settlement of an accepted attempt."""
    return Settlement(claim, "sent", "accepted", provider_message_id=provider_message_id)


def dispatch(connection: Connection, number: int = 1, **arguments: Any) -> list[ClaimedMessage]:
    """Claim and mark as if the call had left."""
    claimed = claim(connection, number, **arguments)
    authorize(connection, *(message.claim for message in claimed))
    return claimed


def reap(connection: Connection) -> dict[str, outbox.Reaped]:
    """All three rules of the reaper, by name."""
    return {
        "undispatched": outbox.reap_undispatched(connection, batch=100),
        "unknown": outbox.reap_dispatched(
            connection, batch=100, grace=GRACE, max_attempts=MAX_ATTEMPTS
        ),
        "late": outbox.expire_waiting(connection, batch=100),
    }


def age(owner: Connection, message_id: UUID, by: timedelta, *columns: str) -> None:
    """Move columns of one message into the past, as if that time had gone by."""
    moved = sql.SQL(", ").join(
        sql.SQL("{0} = {0} - %(by)s").format(sql.Identifier(column)) for column in columns
    )
    owner.execute(
        sql.SQL("UPDATE postlease.email_messages SET {} WHERE id = %(id)s").format(moved),
        {"by": by, "id": message_id},
    )


def pass_time(owner: Connection, by: timedelta) -> None:
    """Let that time go by for the gates and for all that waits: what is now lies in the past."""
    owner.execute(
        "UPDATE postlease.provider_gates SET closed_at = closed_at - %(by)s,"
        " probe_at = probe_at - %(by)s, rate_changed_at = rate_changed_at - %(by)s,"
        " next_slot_at = next_slot_at - %(by)s, updated_at = updated_at - %(by)s,"
        " accepted_at = accepted_at - %(by)s",
        {"by": by},
    )
    owner.execute(
        "UPDATE postlease.email_messages SET available_at = available_at - %(by)s"
        " WHERE status = 'pending' AND available_at > now()",
        {"by": by},
    )
    owner.execute(
        "UPDATE postlease.email_messages SET blocked_at = blocked_at - %(by)s"
        " WHERE blocked_at IS NOT NULL",
        {"by": by},
    )


def end_lease(
    owner: Connection, message_id: UUID, *, ago: timedelta = timedelta(seconds=1)
) -> None:
    """Let a lease have ended ago."""
    age(owner, message_id, LEASE + ago, "claimed_at", "lease_expires_at")


def row(owner: Connection, message_id: UUID) -> dict[str, Any]:
    """The whole row of a message."""
    found = owner.execute(
        "SELECT * FROM postlease.email_messages WHERE id = %s", [message_id]
    ).fetchone()
    assert found, "the message is gone"
    return found


def statuses(owner: Connection) -> dict[str, int]:
    """How many messages there are in each status."""
    return {
        row["status"]: row["n"]
        for row in owner.execute(
            "SELECT status, count(*) AS n FROM postlease.email_messages GROUP BY status"
        )
    }
