"""Accounts on a real database: one user, one live token, one mail, in any order of arrival."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest

from postlease import accounts, tokens
from postlease.errors import (
    InvalidInputError,
    MalformedInputError,
    TokenError,
    UnavailableError,
)
from postlease.model import event_id, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

ADDRESS = "ada@example.com"
LIMITS_OF_A_MAILBOX = 3
"""Rows of one flow: the cooldown, an hour's count, a day's."""

MESSAGES = """
SELECT template, status, failure_reason, locale, token_id, to_addresses
FROM postlease.email_messages ORDER BY created_at, id
"""


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What act(0) to act(count - 1) answer or raise, all begun at one moment in threads."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait(timeout=30)
        try:
            return act(number)
        except Exception as error:  # noqa: BLE001  an error is this one's answer
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_a_sign_up_makes_a_user_a_live_token_and_a_queued_mail(
    world: World, database: Database
) -> None:
    answer = accounts.sign_up(database, email="Ada@Example.com", locale="de-AT")
    user = world.user(answer.user_id)
    assert (user["email"], user["email_canonical"]) == ("Ada@example.com", ADDRESS)
    assert (user["locale"], user["verified_at"]) == ("de-AT", None)
    [token] = world.rows("SELECT * FROM postlease.verification_tokens")
    assert (token["purpose"], token["version"], token["key_id"]) == ("verify_email", 1, "k2")
    assert token["expires_at"] - token["created_at"] == timedelta(days=1)
    assert token["redeemed_at"] is token["superseded_at"] is None
    assert world.rows(MESSAGES) == [
        {
            "template": "verify_email",
            "status": "pending",
            "failure_reason": None,
            "locale": "de-AT",
            "token_id": token["id"],
            "to_addresses": ["Ada@example.com"],
        }
    ]
    [message] = world.rows("SELECT id FROM postlease.email_messages")
    assert answer == accounts.SignUp(answer.user_id, event_id(message["id"]), "queued")


def test_only_the_hash_of_the_token_is_stored(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    dump = world.dump()
    assert token not in dump
    assert tokens.token_hash(token).hex() in dump


def test_a_repeat_inside_the_cooldown_answers_the_event_that_exists(
    world: World, database: Database
) -> None:
    first = accounts.sign_up(database, email=ADDRESS)
    assert accounts.sign_up(database, email="ADA@example.com") == first
    assert accounts.sign_up(database, email=ADDRESS, idempotency_key="other") == first
    assert world.count("email_messages") == 1
    assert len(world.tokens_of(ADDRESS)) == 1


def test_a_repeat_inside_the_cooldown_tells_how_far_the_event_is(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    world.owner.execute(
        "UPDATE postlease.email_messages SET status = 'failed', failure_reason = 'rejected',"
        " finished_at = now()"
    )
    assert accounts.sign_up(database, email=ADDRESS).status == "failed"


def test_a_repeat_after_the_cooldown_supersedes_token_and_pending_mail(
    world: World, database: Database
) -> None:
    first = accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    second = accounts.sign_up(database, email=ADDRESS)
    assert second.user_id == first.user_id
    assert second.event_id != first.event_id
    assert [(m["status"], m["failure_reason"]) for m in world.rows(MESSAGES)] == [
        ("failed", "superseded"),
        ("pending", None),
    ]
    versions = world.rows(
        "SELECT version, superseded_at IS NULL AS live FROM postlease.verification_tokens"
        " ORDER BY version"
    )
    assert versions == [{"version": 1, "live": False}, {"version": 2, "live": True}]


def test_a_cooldown_of_zero_lets_every_repeat_supersede(
    world: World, environment: Callable[..., None], database: Database
) -> None:
    environment(SIGNUP_COOLDOWN_SECONDS="0")
    accounts.sign_up(database, email=ADDRESS)
    for _ in range(3):
        accounts.resend_verification(database, email=ADDRESS)
    assert [m["status"] for m in world.rows(MESSAGES)] == ["failed"] * 3 + ["pending"]
    *older, newest = world.tokens_of(ADDRESS)
    for token in older:
        with pytest.raises(TokenError, match="token-superseded"):
            accounts.verify(database, token=token)
    assert accounts.verify(database, token=newest)


def test_a_verified_account_is_told_that_it_exists_and_answered_alike(
    world: World, database: Database
) -> None:
    first = accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    again = accounts.sign_up(database, email=ADDRESS)
    assert (again.user_id, again.status) == (first.user_id, "queued")
    assert again.event_id != first.event_id
    assert world.rows(MESSAGES)[-1]["template"] == "account_exists"
    assert world.rows(MESSAGES)[-1]["token_id"] is None
    assert accounts.sign_up(database, email=ADDRESS) == again
    assert len(world.tokens_of(ADDRESS)) == 1


def test_a_pending_note_is_superseded_as_a_pending_link_is(
    world: World, database: Database
) -> None:
    """Else the first sign-up's event would tell whether the address is verified."""
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    first = accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    second = accounts.sign_up(database, email=ADDRESS)
    states = [accounts.event_status(database, one.event_id) for one in (first, second)]
    assert [s.status for s in states if isinstance(s, accounts.Event)] == ["expired", "queued"]
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    state = accounts.event_status(database, second.event_id)
    assert isinstance(state, accounts.Event)
    assert state.status == "expired"


def test_a_note_is_good_for_as_long_as_a_link(
    world: World, environment: Callable[..., None], database: Database
) -> None:
    environment(VERIFY_TOKEN_SECONDS="7200")
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.sign_up(database, email=ADDRESS)
    rows = world.rows(
        "SELECT expires_at - created_at AS lasts FROM postlease.email_messages ORDER BY id"
    )
    assert [row["lasts"] for row in rows] == [timedelta(hours=2)] * 2


def test_the_language_follows_the_latest_request_until_the_address_is_proven(
    world: World, database: Database
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS, locale="de")
    world.end_cooldowns()
    accounts.sign_up(database, email=ADDRESS, locale="pt-BR")
    assert world.user(answer.user_id)["locale"] == "pt-BR"
    world.end_cooldowns()
    accounts.sign_up(database, email=ADDRESS)
    assert world.rows(MESSAGES)[-1]["locale"] == "pt-BR"
    accounts.verify(database, token=world.tokens_of(ADDRESS)[-1])
    accounts.sign_up(database, email=ADDRESS, locale="fr")
    assert world.user(answer.user_id)["locale"] == "pt-BR"
    assert world.rows(MESSAGES)[-1]["locale"] == "pt-BR"


@pytest.mark.parametrize(
    "locale", ["", "e", "english", "en_GB", "en-", "-en", "en-a", "e1", "en\n", "en-" + "a" * 33]
)
def test_a_malformed_locale_is_refused_and_nothing_stored(
    world: World, database: Database, locale: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        accounts.sign_up(database, email=ADDRESS, locale=locale)
    assert refused.value.pointer == "/locale"
    assert world.count("users") == world.count("rate_limits") == 0


def test_a_locale_of_35_characters_fits(world: World, database: Database) -> None:
    locale = "en-abcdefgh-abcdefgh-abcdefgh-abcde"
    assert len(locale) == 35
    answer = accounts.sign_up(database, email=ADDRESS, locale=locale)
    assert world.user(answer.user_id)["locale"] == locale


def test_an_invalid_address_is_refused_and_nothing_stored(world: World, database: Database) -> None:
    for act in (accounts.sign_up, accounts.resend_verification):
        with pytest.raises(InvalidInputError) as refused:
            act(database, email="ada@@example.com")
        assert refused.value.pointer == "/email"
        assert "ada" not in str(refused.value)
    assert world.count("users") == world.count("rate_limits") == 0


@pytest.mark.parametrize("key", [lambda n: None, lambda n: "same", lambda n: f"key-{n}"])
def test_parallel_sign_ups_of_one_address_are_one(
    world: World,
    open_database: Callable[[], Database],
    key: Callable[[int], str | None],
) -> None:
    """Without keys, under one key, and under different keys (SGN-01, RSD-05, IDM-01)."""
    processes = [open_database() for _ in range(50)]
    answers = together(
        50,
        lambda n: accounts.sign_up(processes[n], email=ADDRESS, idempotency_key=key(n)),
    )
    assert {(a.user_id, a.event_id, a.status) for a in answers} == {
        (answers[0].user_id, answers[0].event_id, "queued")
    }
    assert world.count("users") == 1
    assert world.count("email_messages") == 1
    assert len(world.tokens_of(ADDRESS)) == 1


def test_parallel_sign_ups_of_many_addresses_do_not_meet(
    world: World, open_database: Callable[[], Database]
) -> None:
    processes = [open_database() for _ in range(10)]
    answers = together(10, lambda n: accounts.sign_up(processes[n], email=f"user{n}@example.com"))
    assert len({answer.user_id for answer in answers}) == 10
    assert world.count("email_messages") == 10


def test_resends_and_sign_ups_in_parallel_leave_one_pending_mail(
    world: World, environment: Callable[..., None], open_database: Callable[[], Database]
) -> None:
    """The cooldown is zero: every request supersedes, and still one live token remains."""
    environment(SIGNUP_COOLDOWN_SECONDS="0")
    processes = [open_database() for _ in range(16)]

    def act(number: int) -> object:
        if number % 2:
            return accounts.resend_verification(processes[number], email=ADDRESS)
        return accounts.sign_up(processes[number], email=ADDRESS)

    accounts.sign_up(processes[0], email=ADDRESS)
    assert not [a for a in together(16, act) if isinstance(a, Exception)]
    pending = world.rows("SELECT token_id FROM postlease.email_messages WHERE status = 'pending'")
    live = world.rows("SELECT id FROM postlease.verification_tokens WHERE superseded_at IS NULL")
    assert [row["token_id"] for row in pending] == [row["id"] for row in live]
    assert len(live) == 1


def test_a_sub_address_gets_its_account_but_no_second_mail_inside_the_cooldown(
    world: World, database: Database
) -> None:
    first = accounts.sign_up(database, email=ADDRESS)
    variant = accounts.sign_up(database, email="ada+shop@example.com")
    assert variant.user_id != first.user_id
    assert (variant.event_id, variant.status) == (first.event_id, "queued")
    assert world.count("users") == 2
    assert world.count("email_messages") == 1
    world.end_cooldowns()
    accounts.resend_verification(database, email="ada+shop@example.com")
    [token] = world.tokens_of("ada+shop@example.com")
    assert accounts.verify(database, token=token).user_id == variant.user_id


def test_a_resend_for_an_unknown_address_stores_the_cooldown_alone(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email="bob@example.com")
    accounts.resend_verification(database, email=ADDRESS)
    assert world.count("rate_limits") == 2 * LIMITS_OF_A_MAILBOX + 2  # a sign-up's, the address's
    assert world.count("users") == world.count("email_messages") == 1


def test_a_cooldown_without_a_mail_does_not_swallow_the_sign_up(
    world: World, database: Database
) -> None:
    accounts.resend_verification(database, email=ADDRESS)
    answer = accounts.sign_up(database, email=ADDRESS)
    assert answer.status == "queued"
    assert world.count("email_messages") == 1
    assert accounts.sign_up(database, email=ADDRESS) == answer


def test_a_sign_up_is_not_answered_with_a_mail_that_was_asked_for_again(
    world: World, database: Database
) -> None:
    """Else it would tell that another address of the mailbox is known: only then there is one."""
    accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    answer = accounts.sign_up(database, email="ada+probe@example.com")
    [probe] = world.rows(
        "SELECT id FROM postlease.email_messages WHERE to_addresses = '{ada+probe@example.com}'"
    )
    assert answer.event_id == event_id(probe["id"])


def test_a_resend_inside_its_own_cooldown_makes_no_mail(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    for _ in range(3):
        accounts.resend_verification(database, email=ADDRESS)
    assert world.count("email_messages") == 2


def test_a_resend_inside_the_cooldown_supersedes_nothing(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    for _ in range(3):
        accounts.resend_verification(database, email=ADDRESS)
    assert [m["status"] for m in world.rows(MESSAGES)] == ["pending"]
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


def test_parallel_resends_send_one_mail(
    world: World, open_database: Callable[[], Database], signed_up: Callable[[str], Any]
) -> None:
    """The cap holds in the database, whoever asks (RSD-01)."""
    signed_up(ADDRESS)
    world.end_cooldowns()
    processes = [open_database() for _ in range(20)]
    answers = together(20, lambda n: accounts.resend_verification(processes[n], email=ADDRESS))
    assert len(set(answers)) == 1
    assert [m["status"] for m in world.rows(MESSAGES)] == ["failed", "pending"]


def test_a_resend_waits_for_whoever_changes_the_user_and_sees_the_change(
    world: World, database: Database, application_conninfo: str
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    with psycopg.connect(application_conninfo) as other, ThreadPoolExecutor(1) as pool:
        other.execute(
            "UPDATE postlease.users SET verified_at = now() WHERE id = %s", [answer.user_id]
        )
        waiting = pool.submit(accounts.resend_verification, database, email=ADDRESS)
        world.wait_until_blocked()
        other.commit()
        waiting.result(timeout=10)
    assert world.rows(MESSAGES)[-1]["template"] == "account_exists"


def test_a_resend_leaves_other_users_and_other_purposes_alone(
    world: World, database: Database
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    accounts.sign_up(database, email="bob@example.com")
    world.owner.execute(
        "INSERT INTO postlease.verification_tokens"
        " (user_id, purpose, version, token_hash, key_id, expires_at)"
        " VALUES (%s, 'reset_password', 7, sha256('x'), 'k2', now() + interval '1 hour')",
        [answer.user_id],
    )
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    live = world.rows(
        "SELECT u.email, t.purpose, t.version FROM postlease.verification_tokens AS t"
        " JOIN postlease.users AS u ON u.id = t.user_id WHERE t.superseded_at IS NULL"
    )
    assert sorted(tuple(row.values()) for row in live) == [
        (ADDRESS, "reset_password", 7),
        (ADDRESS, "verify_email", 2),
        ("bob@example.com", "verify_email", 1),
    ]


def test_asking_again_leaves_the_account_as_it_is(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email="Ada@example.com", locale="de")
    before = world.user(answer.user_id)
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    accounts.request_reset(database, email=ADDRESS)
    assert world.user(answer.user_id) == before
    assert {m["to_addresses"][0] for m in world.rows(MESSAGES)} == {"Ada@example.com"}


def test_a_token_is_superseded_once(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    first_end = "SELECT superseded_at FROM postlease.verification_tokens WHERE version = 1"
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    before = world.rows(first_end)
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    assert world.rows(first_end) == before


def test_a_redeemed_token_is_never_superseded(world: World, database: Database) -> None:
    """An address that is no longer proven can be proven again, by a new token."""
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    world.owner.execute("UPDATE postlease.users SET verified_at = NULL")
    accounts.resend_verification(database, email=ADDRESS)
    [first, second] = world.rows(
        "SELECT redeemed_at, superseded_at FROM postlease.verification_tokens ORDER BY version"
    )
    assert first["redeemed_at"] is not None
    assert first["superseded_at"] is second["redeemed_at"] is second["superseded_at"] is None
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[1])


def test_an_address_proven_otherwise_keeps_its_time(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    world.owner.execute("UPDATE postlease.users SET verified_at = now() - interval '1 day'")
    before = world.user(answer.user_id)["verified_at"]
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0]).verified_at == before


def test_a_resend_for_a_verified_account_says_that_it_exists(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.resend_verification(database, email=ADDRESS)
    assert [m["template"] for m in world.rows(MESSAGES)] == ["verify_email", "account_exists"]


def test_verifying_redeems_the_token_and_proves_the_address_at_once(
    world: World, database: Database
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    verified = accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    assert verified.user_id == answer.user_id
    assert world.user(answer.user_id)["verified_at"] == verified.verified_at
    [token] = world.rows("SELECT redeemed_at FROM postlease.verification_tokens")
    assert token["redeemed_at"] == verified.verified_at


def test_a_second_use_of_a_verify_token_is_the_same_success(
    world: World, database: Database
) -> None:
    """It moves nothing and mails nothing (VER-04)."""
    accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    first = accounts.verify(database, token=token)
    before = world.rows("SELECT * FROM postlease.verification_tokens")
    assert accounts.verify(database, token=token) == first
    assert world.rows("SELECT * FROM postlease.verification_tokens") == before
    assert world.count("email_messages") == 1


def test_a_second_use_does_not_end_a_later_cooldown(world: World, database: Database) -> None:
    """Else a used link would be a licence to send one mail after another."""
    accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    accounts.verify(database, token=token)
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=token)
    accounts.sign_up(database, email=ADDRESS)
    assert world.count("email_messages") == 2


def test_verifying_ends_the_cooldown(world: World, database: Database) -> None:
    """A completed flow does not swallow the next request (RSD-03)."""
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    assert world.count("rate_limits") == LIMITS_OF_A_MAILBOX - 1
    accounts.sign_up(database, email=ADDRESS)
    assert world.count("email_messages") == 2


def test_verifying_ends_the_mail_that_has_not_left(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    assert [(m["status"], m["failure_reason"]) for m in world.rows(MESSAGES)] == [
        ("failed", "superseded")
    ]


def test_fifty_parallel_redemptions_change_one_row_and_all_succeed(
    world: World, open_database: Callable[[], Database], signed_up: Callable[[str], Any]
) -> None:
    """VER-11."""
    signed_up(ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    processes = [open_database() for _ in range(50)]
    answers = together(50, lambda n: accounts.verify(processes[n], token=token))
    assert set(answers) == {answers[0]}
    assert isinstance(answers[0], accounts.Verified)
    [row] = world.rows("SELECT redeemed_at FROM postlease.verification_tokens")
    assert row["redeemed_at"] == answers[0].verified_at


def test_an_expired_token_changes_nothing(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    with pytest.raises(TokenError, match="token-expired"):
        accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    assert world.user(answer.user_id)["verified_at"] is None
    assert world.count("rate_limits") == LIMITS_OF_A_MAILBOX


def test_a_superseded_token_answers_so_in_every_order_of_clicks(
    world: World, database: Database
) -> None:
    """VER-06: the oldest mail, then the newest, then the oldest again."""
    accounts.sign_up(database, email=ADDRESS)
    for _ in range(2):
        world.end_cooldowns()
        accounts.resend_verification(database, email=ADDRESS)
    first, second, third = world.tokens_of(ADDRESS)
    for token in (first, second):
        with pytest.raises(TokenError, match="token-superseded"):
            accounts.verify(database, token=token)
    accounts.verify(database, token=third)
    for token in (second, first):
        with pytest.raises(TokenError, match="token-superseded"):
            accounts.verify(database, token=token)


def test_an_expired_token_that_was_replaced_answers_that_a_newer_one_exists(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    world.end_cooldowns()
    accounts.resend_verification(database, email=ADDRESS)
    with pytest.raises(TokenError, match="token-superseded"):
        accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


def test_what_is_no_token_of_ours_is_invalid(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    stranger = tokens.derive(
        b"k" * 43, purpose="verify_email", token_id=uuid4(), version=1, user_id=uuid4()
    )
    for text in ("", "garbage", forged, stranger, token + "=", " " + token, token + "\0"):
        with pytest.raises(TokenError, match="token-invalid"):
            accounts.verify(database, token=text)
    assert world.rows("SELECT FROM postlease.users WHERE verified_at IS NOT NULL") == []


def test_a_reset_token_verifies_nothing(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    world.owner.execute("UPDATE postlease.verification_tokens SET purpose = 'reset_password'")
    token = tokens.derive(
        world.ring.key("k2"),
        purpose="reset_password",
        token_id=(token_id := uuid4()),
        version=2,
        user_id=answer.user_id,
    )
    world.owner.execute("UPDATE postlease.verification_tokens SET superseded_at = now()")
    world.owner.execute(
        "INSERT INTO postlease.verification_tokens"
        " (id, user_id, purpose, version, token_hash, key_id, expires_at)"
        " VALUES (%s, %s, 'reset_password', 2, %s, 'k2', now() + interval '1 hour')",
        [token_id, answer.user_id, tokens.token_hash(token)],
    )
    with pytest.raises(TokenError, match="token-invalid"):
        accounts.verify(database, token=token)


def test_a_redeemed_token_of_an_address_no_longer_proven_is_superseded(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    accounts.verify(database, token=token)
    world.owner.execute("UPDATE postlease.users SET verified_at = NULL")
    with pytest.raises(TokenError, match="token-superseded"):
        accounts.verify(database, token=token)


def test_a_token_purged_while_its_redemption_waited_is_invalid(
    world: World, database: Database, application_conninfo: str
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    with psycopg.connect(application_conninfo) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT FROM postlease.users WHERE id = %s FOR UPDATE", [answer.user_id])
        waiting = pool.submit(accounts.verify, database, token=token)
        world.wait_until_blocked()
        world.owner.execute("DELETE FROM postlease.email_messages")
        world.owner.execute("DELETE FROM postlease.verification_tokens")
        other.rollback()
        with pytest.raises(TokenError, match="token-invalid"):
            waiting.result(timeout=10)


def test_a_redemption_that_waited_sees_what_happened_meanwhile(
    world: World, database: Database, application_conninfo: str
) -> None:
    """The token is read again under the user's lock: superseded meanwhile, it is not redeemed."""
    answer = accounts.sign_up(database, email=ADDRESS)
    [token] = world.tokens_of(ADDRESS)
    with psycopg.connect(application_conninfo) as other, ThreadPoolExecutor(1) as pool:
        other.execute(
            "SELECT FROM postlease.users WHERE id = %s FOR NO KEY UPDATE", [answer.user_id]
        )
        waiting = pool.submit(accounts.verify, database, token=token)
        world.wait_until_blocked()
        other.execute("UPDATE postlease.verification_tokens SET superseded_at = now()")
        other.commit()
        with pytest.raises(TokenError, match="token-superseded"):
            waiting.result(timeout=10)
    assert world.user(answer.user_id)["verified_at"] is None


def test_a_request_that_waits_too_long_for_a_lock_is_told_to_come_back(
    world: World, database: Database, application_conninfo: str
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    with psycopg.connect(application_conninfo) as other:
        other.execute(
            "SELECT FROM postlease.users WHERE id = %s FOR NO KEY UPDATE", [answer.user_id]
        )
        with pytest.raises(UnavailableError):
            accounts.sign_up(database, email=ADDRESS)
        other.rollback()
    assert accounts.sign_up(database, email=ADDRESS).event_id != answer.event_id


def test_tokens_outlive_a_rotation_of_keys(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    older = tokens.derive(
        world.ring.key("k1"),
        purpose="verify_email",
        token_id=(token_id := uuid4()),
        version=2,
        user_id=answer.user_id,
    )
    world.owner.execute("UPDATE postlease.verification_tokens SET superseded_at = now()")
    world.owner.execute(
        "INSERT INTO postlease.verification_tokens"
        " (id, user_id, purpose, version, token_hash, key_id, expires_at)"
        " VALUES (%s, %s, 'verify_email', 2, %s, 'k1', now() + interval '1 hour')",
        [token_id, answer.user_id, tokens.token_hash(older)],
    )
    assert accounts.verify(database, token=older).user_id == answer.user_id


def test_an_event_tells_its_state_and_times(world: World, database: Database) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    found = accounts.event_status(database, answer.event_id)
    [message] = world.rows("SELECT created_at FROM postlease.email_messages")
    assert found == accounts.Event(answer.event_id, "queued", message["created_at"], None, None)


@pytest.mark.parametrize(
    ("status", "reason", "word"),
    [
        ("pending", None, "queued"),
        ("sending", None, "sending"),
        ("sent", None, "sent"),
        ("failed", "expired", "expired"),
        ("failed", "superseded", "expired"),
        ("failed", "cancelled", "expired"),
        ("failed", "rejected", "failed"),
        ("failed", "outcome_unknown", "failed"),
        ("failed", "suppressed", "failed"),
    ],
)
def test_every_state_has_its_public_word(
    world: World, database: Database, status: str, reason: str | None, word: str
) -> None:
    answer = accounts.sign_up(database, email=ADDRESS)
    sending, sent, ended = status == "sending", status == "sent", status in {"sent", "failed"}
    world.owner.execute(
        "UPDATE postlease.email_messages SET status = %s, failure_reason = %s,"
        " lease_owner = %s, claimed_at = %s, lease_expires_at = %s,"
        " sent_at = %s, finished_at = %s, provider_message_id = %s",
        [
            status,
            reason,
            "o" if sending else None,
            "now" if sending else None,
            "now" if sending else None,
            "now" if sent else None,
            "now" if ended else None,
            "p" if sent else None,
        ],
    )
    found = accounts.event_status(database, answer.event_id)
    assert isinstance(found, accounts.Event)
    assert found.status == word
    assert (found.sent_at is not None) == sent
    assert (found.finished_at is not None) == ended


def test_an_event_within_retention_that_is_not_there_is_unknown(
    world: World, database: Database
) -> None:
    id_now = world.rows("SELECT postlease.uuid_v7() AS id")[0]["id"]
    an_hour_ago = UUID(int=id_now.int - (3_600_000 << 80))
    assert accounts.event_status(database, event_id(an_hour_ago)) == "unknown"


def test_an_event_older_than_retention_is_purged(world: World, database: Database) -> None:
    assert accounts.event_status(database, "evt_01" + "0" * 24) == "purged"


def test_another_producers_message_is_no_event(world: World, database: Database) -> None:
    [message] = world.rows("SELECT postlease.enqueue_email('welcome', ARRAY[%s]) AS id", ADDRESS)
    assert accounts.event_status(database, event_id(message["id"])) == "unknown"


@pytest.mark.parametrize("wire", ["", "evt_", "evt_" + "0" * 25, "evt_" + "l" * 26, "x" * 30])
def test_a_malformed_event_id_is_refused(world: World, database: Database, wire: str) -> None:
    assert parse_event_id(wire) is None
    with pytest.raises(MalformedInputError) as refused:
        accounts.event_status(database, wire)
    assert refused.value.pointer == "event_id"
