"""Sub-addresses of a mailbox share its limits, and none of them tells whether another is known.

What shows is the answer to a sign-up, and what becomes of the mail that it was answered with.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from postlease import accounts
from tests.integration.auth.test_accounts import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

OTHER = "ada+x@example.com"
THIRD = "ada+y@example.com"

WORLDS = ("unknown", "unverified", "waiting", "verified", "noted")
"""What the mailbox's own address is, when a stranger begins to ask."""

LEASED = (
    "UPDATE postlease.email_messages SET status = 'sending', lease_owner = 'w', claimed_at = now(),"
    " lease_expires_at = now() + interval '1 minute', attempt_count = 1"
)
TAKEN = LEASED.encode() + b" WHERE status = 'pending' AND to_addresses = ARRAY[%s]"
LEFT = (
    "UPDATE postlease.email_messages SET status = 'sent', provider = 'ses', sent_at = now(),"
    " provider_message_id = 'p', dispatched_at = now(), finished_at = now(), lease_owner = NULL,"
    " claimed_at = NULL, lease_expires_at = NULL WHERE finished_at IS NULL"
)
UNFINISHED = b" WHERE finished_at IS NULL AND to_addresses = ARRAY[%s]"
UNLEARNED = b"UPDATE postlease.email_messages SET unknown_count = 1" + UNFINISHED
ASKED_AGAIN = (
    b"UPDATE postlease.email_messages SET keyed_since = now(), provider = 'resend'" + UNFINISHED
)


class Stranger:
    """Asks over HTTP, in effect, and writes down all that shows."""

    def __init__(self, world: World, database: Database) -> None:
        self.world, self.database = world, database
        self.seen: list[object] = []
        self.events: list[str] = []

    def act(self, step: str) -> None:
        """One step: a verb and, for most, an address."""
        verb, _, address = step.partition(" ")
        match verb:
            case "sign-up":
                answer = accounts.sign_up(self.database, email=address)
                if answer.event_id not in self.events:
                    self.events.append(answer.event_id)
                self.seen.append((self.events.index(answer.event_id), answer.status))
            case "again":
                accounts.resend_verification(self.database, email=address)
            case "reset":
                accounts.request_reset(self.database, email=address)
            case "wait":
                self.world.rows(
                    "UPDATE postlease.rate_limits SET"
                    " window_started_at = window_started_at - interval '61 seconds',"
                    " window_ends_at = window_ends_at - interval '61 seconds' RETURNING 1"
                )
            case "sent":
                self.world.owner.execute(LEFT)
            case "taken":
                self.world.owner.execute(TAKEN, [address])
            case "unknown":
                self.world.owner.execute(UNLEARNED, [address])
            case "keyed":
                self.world.owner.execute(ASKED_AGAIN, [address])
        self.seen.append((step, [self.state(event) for event in self.events]))

    def state(self, event: str) -> str:
        """The public status of an event."""
        found = accounts.event_status(self.database, event)
        assert isinstance(found, accounts.Event)
        return found.status


def clean(world: World) -> None:
    """Nothing is known, and no limit holds."""
    for table in ("email_messages", "verification_tokens", "users", "rate_limits"):
        world.rows(f"DELETE FROM postlease.{table} RETURNING 1")  # noqa: S608  four names of ours


def begin(world: World, database: Database, name: str) -> None:
    """The address as it was long before."""
    if name == "unknown":
        return
    accounts.sign_up(database, email=ADDRESS)
    if name in {"verified", "noted"}:
        accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    if name == "noted":
        accounts.sign_up(database, email=ADDRESS)
    if name == "unverified":
        world.dispatch()
    world.end_cooldowns()


OFTEN = [step for _ in range(7) for step in (f"again {ADDRESS}", "wait")]
ATTACKS = {
    "a mail that waits": [f"again {ADDRESS}", f"again {OTHER}"],
    "a mail that waits long": [
        *OFTEN,
        f"again {OTHER}",
        f"again {OTHER}",
        "wait",
        f"again {OTHER}",
    ],
    "a mail asked for again and again": [f"again {OTHER}", "wait", *OFTEN, f"again {OTHER}"],
    "a mail that has left": [
        "sent",
        *(f"again {ADDRESS}", f"again {OTHER}", "wait", f"sign-up {OTHER}", "wait"),
        *(f"again {ADDRESS}", f"again {OTHER}", f"sign-up {OTHER}"),
    ],
    "a mail on its way": [
        *(f"taken {OTHER}", f"again {ADDRESS}", f"again {OTHER}", "wait", f"again {OTHER}"),
        *("sent", f"again {OTHER}", "wait", f"sign-up {OTHER}"),
    ],
    "a mail that may have left": [
        *(f"unknown {OTHER}", f"again {ADDRESS}", f"again {OTHER}", "wait", f"again {OTHER}"),
    ],
    "two sub-addresses": [
        *(f"sign-up {THIRD}", f"again {ADDRESS}", f"again {OTHER}", "wait"),
        *(f"again {ADDRESS}", f"again {OTHER}", f"again {THIRD}", f"sign-up {THIRD}"),
    ],
    "resets between": [
        *(f"reset {ADDRESS}", f"reset {OTHER}", f"again {OTHER}", "wait", f"reset {OTHER}"),
        *(f"sign-up {OTHER}", "wait", f"again {ADDRESS}", f"again {OTHER}"),
    ],
    "the address itself": [
        *(f"again {ADDRESS}", "wait", f"sign-up {ADDRESS}", f"again {ADDRESS}", "wait"),
        *(f"again {OTHER}", f"again {ADDRESS}", "wait", f"sign-up {ADDRESS}", f"sign-up {OTHER}"),
    ],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_a_sub_address_shows_tells_whether_the_mailbox_has_an_account(
    world: World, environment: Callable[..., None], database: Database, attack: str
) -> None:
    """Whatever the address is, the same steps show the same."""
    seen: dict[str, Any] = {}
    for name in WORLDS:
        clean(world)
        begin(world, database, name)
        stranger = Stranger(world, database)
        for step in (f"sign-up {OTHER}", "wait", *ATTACKS[attack]):
            stranger.act(step)
        seen[name] = stranger.seen
    for name in WORLDS[1:]:
        assert seen[name] == seen["unknown"], name


@pytest.fixture
def waiting(world: World, database: Database) -> Stranger:
    """A sign-up's mail waits, beyond the cooldown."""
    stranger = Stranger(world, database)
    for step in (f"sign-up {OTHER}", "wait"):
        stranger.act(step)
    return stranger


def test_a_mailbox_gets_no_more_mail_than_its_limits_say_however_often_mail_is_replaced(
    world: World, environment: Callable[..., None], database: Database
) -> None:
    """RSD-01: two sign-ups' mails and two that were asked for again, whatever replaced them."""
    environment(MAILBOX_LIMIT_PER_HOUR="2")
    stranger = Stranger(world, database)
    for turn in range(12):
        for address in (OTHER, THIRD)[:: 1 if turn % 2 else -1]:
            stranger.act(f"sign-up {address}")
            stranger.act("wait")
            stranger.act(f"again {address}")
            if turn % 3:
                stranger.act("sent")
    world.dispatch()
    sent = world.rows("SELECT FROM postlease.email_messages WHERE status = 'sent'")
    assert 2 <= len(sent) <= 2 + 2


def test_a_replacement_has_the_cooldown_of_its_address(world: World, waiting: Stranger) -> None:
    for _ in range(3):
        waiting.act(f"again {OTHER}")
    assert world.count("email_messages") == 2
    waiting.act("wait")
    waiting.act(f"again {OTHER}")
    assert world.count("email_messages") == 3


def test_a_replacement_begins_and_uses_up_nothing_of_the_mailbox(
    world: World, environment: Callable[..., None], waiting: Stranger
) -> None:
    environment(MAILBOX_LIMIT_PER_HOUR="1")
    world.end_cooldowns()
    waiting.act(f"sign-up {ADDRESS}")
    world.owner.execute(LEFT.encode() + b" AND to_addresses = ARRAY[%s]", [ADDRESS])
    world.end_cooldowns()
    for step in (f"again {OTHER}", f"again {ADDRESS}", f"again {ADDRESS}", f"again {THIRD}"):
        waiting.act(step)
    # The sign-ups' two, what took the place of one of them, and the one mail that an hour has left.
    assert world.count("email_messages") == 4


def test_what_takes_a_mail_s_place_waits_as_long_as_that_did(
    world: World, waiting: Stranger
) -> None:
    """Else whoever asks again and again would keep it from ever leaving."""
    world.owner.execute("UPDATE postlease.email_messages SET available_at = '2026-01-01Z'")
    waiting.act("sign-up bob@example.com")
    for _ in range(2):
        waiting.act(f"again {OTHER}")
        waiting.act("wait")
    rows = world.rows(
        "SELECT to_addresses[1] AS whose, available_at = '2026-01-01Z' AS is_first,"
        " available_at = created_at - interval '1 microsecond' AS is_last"
        " FROM postlease.email_messages WHERE status = 'pending' ORDER BY 1"
    )
    assert rows == [
        {"whose": OTHER, "is_first": True, "is_last": False},
        {"whose": "bob@example.com", "is_first": False, "is_last": True},
    ]


def test_what_takes_the_place_of_a_mail_that_was_put_off_is_due(
    world: World, waiting: Stranger
) -> None:
    world.owner.execute("UPDATE postlease.email_messages SET available_at = now() + interval '1 h'")
    waiting.act(f"again {OTHER}")
    [row] = world.rows(
        "SELECT available_at <= now() AS is_due, available_at > now() - interval '1 minute' AS"
        " is_new FROM postlease.email_messages WHERE status = 'pending'"
    )
    assert row == {"is_due": True, "is_new": True}


KINDS = ("link", "note", "reset")


def ask(stranger: Stranger, kind: str) -> None:
    """Ask for a mail of that kind to the address that shows."""
    stranger.act(f"{'reset' if kind == 'reset' else 'again'} {OTHER}")


@pytest.fixture
def shown(world: World, database: Database) -> Callable[[str], Stranger]:
    """Begins anew: a mail of that kind waits, beyond the cooldown."""

    def begin_anew(kind: str) -> Stranger:
        clean(world)
        stranger = Stranger(world, database)
        for step in (f"sign-up {OTHER}", "wait"):
            stranger.act(step)
        if kind == "note":
            accounts.verify(database, token=world.tokens_of(OTHER)[0])
            stranger.act(f"sign-up {OTHER}")
        elif kind == "reset":
            stranger.act("sent")
            stranger.act(f"reset {OTHER}")
        stranger.act("wait")
        return stranger

    return begin_anew


def state(world: World) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All mails and tokens."""
    mails = world.rows("SELECT * FROM postlease.email_messages ORDER BY id")
    return mails, world.rows("SELECT * FROM postlease.verification_tokens ORDER BY id")


def test_what_is_on_its_way_is_neither_ended_nor_sent_twice(
    world: World, shown: Callable[[str], Stranger]
) -> None:
    for kind in KINDS:
        for step in ("taken", "unknown", "keyed"):
            stranger = shown(kind)
            stranger.act(f"{step} {OTHER}")
            before = state(world)
            for _ in range(2):
                ask(stranger, kind)
                stranger.act("wait")
            assert state(world) == before, (kind, step)


def test_what_has_left_holds_nobody_beyond_the_limits(
    world: World, shown: Callable[[str], Stranger]
) -> None:
    for kind in KINDS:
        stranger = shown(kind)
        stranger.act("sent")
        before = world.count("email_messages")
        ask(stranger, kind)
        assert world.count("email_messages") == before + 1, kind


def test_a_mail_on_its_way_whose_link_is_over_holds_nobody(
    world: World, shown: Callable[[str], Stranger]
) -> None:
    for end in ("superseded_at", "redeemed_at"):
        stranger = shown("link")
        stranger.act(f"taken {OTHER}")
        world.rows(f"UPDATE postlease.verification_tokens SET {end} = now() RETURNING 1")  # noqa: S608  two names of ours
        ask(stranger, "link")
        assert world.count("email_messages") == 2, end


def test_another_mail_on_its_way_holds_nobody(
    world: World, database: Database, shown: Callable[[str], Stranger]
) -> None:
    """Another account's, or for another purpose."""
    bob = "bob@example.com"
    for kind in KINDS:
        for other in ("link", "note", "reset", "reset of another"):
            if kind == other:
                continue
            stranger = shown(kind)
            stranger.act("sent")
            stranger.act(f"sign-up {bob}")
            if other == "note":
                accounts.verify(database, token=world.tokens_of(bob)[0])
                stranger.act(f"sign-up {bob}")
            elif other == "reset":
                stranger.act(f"reset {OTHER}")
            else:
                stranger.act(f"reset {bob}")
            world.owner.execute(LEASED.encode() + b" WHERE finished_at IS NULL")
            before = world.count("email_messages")
            ask(stranger, kind)
            assert world.count("email_messages") == before + 1, (kind, other)


def test_a_note_that_waits_has_no_part_in_a_reset(
    world: World, shown: Callable[[str], Stranger]
) -> None:
    stranger = shown("note")
    before = world.count("email_messages")
    ask(stranger, "reset")
    assert world.count("email_messages") == before + 1
    assert stranger.state(stranger.events[-1]) == "queued"


def test_a_link_that_waits_is_not_replaced_by_the_note_of_an_address_proven_otherwise(
    world: World, environment: Callable[..., None], shown: Callable[[str], Stranger]
) -> None:
    """So the note is one mail more, and counts."""
    environment(MAILBOX_LIMIT_PER_HOUR="1")
    stranger = shown("link")
    world.owner.execute("UPDATE postlease.users SET verified_at = now()")
    ask(stranger, "link")
    stranger.act(f"sign-up {THIRD}")
    stranger.act("wait")
    before = world.count("email_messages")
    stranger.act("sent")
    stranger.act(f"again {THIRD}")
    assert world.count("email_messages") == before


def test_another_producer_s_mail_under_a_note_s_scope_holds_nobody(
    world: World, database: Database, waiting: Stranger
) -> None:
    accounts.verify(database, token=world.tokens_of(OTHER)[0])
    [user] = world.rows("SELECT id FROM postlease.users")
    [message] = world.rows(
        "SELECT postlease.enqueue_email('welcome', ARRAY[%s]) AS id", "bob@example.com"
    )
    world.owner.execute(
        LEASED.encode() + b", cancel_scope = %s WHERE id = %s",
        [f"account_exists:{user['id']}", message["id"]],
    )
    before = world.count("email_messages")
    waiting.act(f"again {OTHER}")
    assert world.count("email_messages") == before + 1


def test_a_mail_that_is_taken_at_this_moment_is_on_its_way(
    world: World, database: Database, waiting: Stranger
) -> None:
    """Whoever asks waits for the sender that takes it, and then leaves it alone."""
    with (
        psycopg.connect(world.owner.info.dsn, password=world.owner.info.password) as sender,
        ThreadPoolExecutor(1) as pool,
    ):
        sender.execute(TAKEN, [OTHER])
        asking = pool.submit(accounts.resend_verification, database, email=OTHER)
        world.wait_until_blocked()
        sender.commit()
        asking.result(timeout=10)
    assert world.count("email_messages") == 1
    [token] = world.rows("SELECT superseded_at FROM postlease.verification_tokens")
    assert token["superseded_at"] is None
