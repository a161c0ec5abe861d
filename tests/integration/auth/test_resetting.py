"""A reset: asked for by anybody, mailed to whom it concerns, redeemed once by a signed caller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from postlease import accounts, idempotency, outbox
from postlease.errors import (
    ConflictError,
    DatabaseError,
    InvalidInputError,
    MalformedInputError,
    TokenError,
    UnavailableError,
)
from tests.integration.auth.test_accounts import (
    ADDRESS,
    LIMITS_OF_A_MAILBOX,
    MESSAGES,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.accounts import Redeemed, SignUp
    from postlease.database import Database
    from tests.integration.auth.conftest import World

SERVICE = "123456789012:role/shop"


def redeem(
    database: Database, token: str, key: str | None = None, principal: str = SERVICE
) -> Redeemed:
    """One redemption by a service."""
    return accounts.redeem_reset(database, token=token, idempotency_key=key, principal=principal)


def test_a_reset_makes_a_token_of_its_own_and_a_queued_mail(
    world: World, database: Database
) -> None:
    accounts.sign_up(database, email=ADDRESS, locale="de")
    accounts.request_reset(database, email="ADA@example.com")
    [token] = world.rows(
        "SELECT * FROM postlease.verification_tokens WHERE purpose = 'reset_password'"
    )
    assert (token["version"], token["key_id"]) == (1, "k2")
    assert token["expires_at"] - token["created_at"] == timedelta(hours=1)
    assert world.rows(MESSAGES)[-1] == {
        "template": "reset_password",
        "status": "pending",
        "failure_reason": None,
        "locale": "de",
        "token_id": token["id"],
        "to_addresses": [ADDRESS],
    }
    # What proves the address is another token, and lives on.
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


def test_a_verified_account_gets_the_same_mail(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.request_reset(database, email=ADDRESS)
    assert world.rows(MESSAGES)[-1]["template"] == "reset_password"


def test_an_unknown_address_has_its_limits_and_nothing_else(
    world: World, database: Database
) -> None:
    accounts.request_reset(database, email=ADDRESS)
    assert world.count("rate_limits") == LIMITS_OF_A_MAILBOX + 1  # and the address's cooldown
    for table in ("users", "verification_tokens", "email_messages"):
        assert world.count(table) == 0


def test_an_invalid_address_is_refused(world: World, database: Database) -> None:
    with pytest.raises(InvalidInputError) as refused:
        accounts.request_reset(database, email="ada@@example.com")
    assert refused.value.pointer == "/email"
    assert world.count("rate_limits") == 0


def test_a_second_request_inside_the_cooldown_changes_nothing(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    _, token = reset()
    accounts.request_reset(database, email=ADDRESS)
    assert world.tokens_of(ADDRESS, "reset_password") == [token]
    assert redeem(database, token)


def test_a_sign_up_and_a_reset_do_not_share_a_cooldown(world: World, database: Database) -> None:
    accounts.request_reset(database, email=ADDRESS)
    accounts.sign_up(database, email=ADDRESS)
    accounts.request_reset(database, email="ada+x@example.com")  # the mailbox's cooldown holds
    assert [m["template"] for m in world.rows(MESSAGES)] == ["verify_email"]


@pytest.mark.parametrize("order", ["older first", "newer first"])
def test_of_two_resets_only_the_newest_works(
    world: World, environment: Callable[..., None], database: Database, order: str
) -> None:
    """RST-01: whatever the order in which the mails arrive."""
    environment(SIGNUP_COOLDOWN_SECONDS="0")
    accounts.sign_up(database, email=ADDRESS)
    accounts.request_reset(database, email=ADDRESS)
    accounts.request_reset(database, email=ADDRESS)
    assert [(m["status"], m["failure_reason"]) for m in world.rows(MESSAGES)[1:]] == [
        ("failed", "superseded"),
        ("pending", None),
    ]
    older, newer = world.tokens_of(ADDRESS, "reset_password")
    if order == "newer first":
        assert redeem(database, newer)
    with pytest.raises(TokenError, match="token-superseded"):
        redeem(database, older)
    if order == "older first":
        assert redeem(database, newer)


def test_redeeming_answers_whose_it_is_and_ends_the_mail_but_proves_no_address(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    user_id, token = reset()
    assert redeem(database, token) == accounts.Redeemed(user_id)
    assert world.user(user_id)["verified_at"] is None
    assert world.rows(MESSAGES)[-1]["failure_reason"] == "superseded"
    [row] = world.rows(
        "SELECT redeemed_at FROM postlease.verification_tokens WHERE purpose = 'reset_password'"
    )
    assert row["redeemed_at"] is not None


def test_a_reset_is_redeemed_once(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """RST-01."""
    _, token = reset()
    redeem(database, token)
    before = world.dump()
    with pytest.raises(TokenError, match="token-used"):
        redeem(database, token)
    with pytest.raises(TokenError, match="token-used"):
        redeem(database, token, "another")
    assert world.dump() == before


def test_of_fifty_parallel_redemptions_one_succeeds(
    world: World,
    open_database: Callable[[], Database],
    reset: Callable[[], tuple[UUID, str]],
) -> None:
    """RST-01."""
    user_id, token = reset()
    processes = [open_database() for _ in range(50)]
    answers = together(50, lambda n: redeem(processes[n], token))
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    assert [a for a in answers if not isinstance(a, Exception)] == [accounts.Redeemed(user_id)]
    assert [str(error) for error in errors] == ["token-used"] * 49


def test_parallel_redemptions_under_one_key_all_get_the_one_answer(
    world: World,
    open_database: Callable[[], Database],
    reset: Callable[[], tuple[UUID, str]],
) -> None:
    """IDM-01."""
    user_id, token = reset()
    processes = [open_database() for _ in range(20)]
    answers = together(20, lambda n: redeem(processes[n], token, "key"))
    assert {answer.user_id for answer in answers} == {user_id}
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 19


def test_a_lost_answer_does_not_burn_the_link(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    user_id, token = reset()
    redeem(database, token, "key")
    assert redeem(database, token, '"key"') == accounts.Redeemed(user_id, replayed=True)
    with pytest.raises(TokenError, match="token-used"):
        redeem(database, token)


def test_a_crash_between_redemption_and_answer_leaves_neither(
    world: World,
    database: Database,
    reset: Callable[[], tuple[UUID, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user_id, token = reset()
    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "FINISH", "SELECT 1 / 0")
        with pytest.raises(DatabaseError):
            redeem(database, token, "key")
    assert world.count("idempotency_keys") == 0
    assert redeem(database, token, "key") == accounts.Redeemed(user_id)


def test_a_key_belongs_to_its_principal_and_its_token(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """IDM-02."""
    _, token = reset()
    redeem(database, token, "key")
    with pytest.raises(TokenError, match="token-used"):
        redeem(database, token, "key", "123456789012:role/other")
    world.end_cooldowns()
    accounts.request_reset(database, email=ADDRESS)
    another = world.tokens_of(ADDRESS, "reset_password")[-1]
    with pytest.raises(ConflictError) as reused:
        redeem(database, another, "key")
    assert reused.value.code == "idempotency-key-reused"


def test_a_refused_redemption_leaves_no_key(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """IDM-05."""
    _, token = reset()
    for wrong in ("x", "A" * 64):
        with pytest.raises(TokenError, match="token-invalid"):
            redeem(database, wrong, "key")
    with pytest.raises(MalformedInputError):
        redeem(database, token, "a key")
    assert world.count("idempotency_keys") == 0
    assert not redeem(database, token, "key").replayed


def test_an_expired_reset_changes_nothing(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    _, token = reset()
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    before = world.dump()
    with pytest.raises(TokenError, match="token-expired"):
        redeem(database, token)
    assert world.dump() == before


def test_a_token_serves_its_own_purpose_alone(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    _, token = reset()
    with pytest.raises(TokenError, match="token-invalid"):
        accounts.verify(database, token=token)
    with pytest.raises(TokenError, match="token-invalid"):
        redeem(database, world.tokens_of(ADDRESS)[0])


def test_a_completed_reset_does_not_swallow_the_next_request(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """RSD-03."""
    _, token = reset()
    redeem(database, token)
    accounts.request_reset(database, email=ADDRESS)
    assert redeem(database, world.tokens_of(ADDRESS, "reset_password")[-1])


def test_a_redemption_that_waited_sees_what_happened_meanwhile(
    world: World,
    open_database: Callable[[], Database],
    reset: Callable[[], tuple[UUID, str]],
) -> None:
    user_id, token = reset()
    first, second = open_database(), open_database()
    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            connection.execute(
                "SELECT FROM postlease.users WHERE id = %s FOR NO KEY UPDATE", [user_id]
            )
            waiting = pool.submit(redeem, second, token)
            world.wait_until_blocked()
            connection.execute(
                "UPDATE postlease.verification_tokens SET superseded_at = now()"
                " WHERE purpose = 'reset_password'"
            )
        with pytest.raises(TokenError, match="token-superseded"):
            waiting.result(timeout=10)


def test_a_held_user_is_an_unavailable_service_and_no_redemption(
    world: World,
    open_database: Callable[[], Database],
    reset: Callable[[], tuple[UUID, str]],
) -> None:
    _, token = reset()
    first, second = open_database(), open_database()
    with first.transaction() as connection:
        connection.execute("SELECT FROM postlease.users FOR NO KEY UPDATE")
        with pytest.raises(UnavailableError):
            redeem(second, token, "key")
    assert not redeem(second, token, "key").replayed


def test_parallel_requests_for_one_reset_mail_once(
    world: World, open_database: Callable[[], Database], signed_up: Callable[[str], SignUp]
) -> None:
    """RSD-01."""
    signed_up(ADDRESS)
    processes = [open_database() for _ in range(20)]
    told = together(20, lambda n: accounts.request_reset(processes[n], email=ADDRESS))
    assert len(set(told)) == 1
    assert [m["template"] for m in world.rows(MESSAGES)] == ["verify_email", "reset_password"]


def test_known_unknown_verified_and_suppressed_cost_the_same_statements(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RST-05: no shorter way that would show in the time of the answer, inside the limits either.

    An address held by its mailbox's limits would tell that another of that mailbox is known.
    """
    classes = ("unknown", "unverified", "verified", "noted", "suppressed", "sent")
    for name in classes[1:]:
        accounts.sign_up(database, email=f"{name}@example.com")
    for name in ("verified", "noted"):
        accounts.verify(database, token=world.tokens_of(f"{name}@example.com")[0])
    accounts.sign_up(database, email="noted@example.com")
    world.owner.execute(
        "UPDATE postlease.email_messages SET status = 'failed', failure_reason = 'rejected',"
        " finished_at = now() WHERE to_addresses = ARRAY['sent@example.com']"
    )
    from psycopg import Connection, Cursor  # noqa: PLC0415

    said: list[str] = []
    superseded: list[int] = []
    execute, command = Cursor.execute, Connection._exec_command

    def told(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        done = execute(cursor, query, *arguments, **options)
        title = str(query).partition("\n")[0]
        said.append(title)
        if "supersede" in title or "end_live" in title:
            superseded.append(cursor.rowcount)
        return done

    def commanded(connection: Any, query: bytes, **options: Any) -> Any:
        said.append(query.decode())
        return command(connection, query, **options)

    for ask in (accounts.request_reset, accounts.resend_verification):
        everything: set[tuple[str, ...]] = set()
        for repeat in ("outside", "inside"):
            heard = []
            if repeat == "outside":
                world.end_cooldowns()
            for name in classes:
                with monkeypatch.context() as patch:
                    patch.setattr(Cursor, "execute", told)
                    patch.setattr(Connection, "_exec_command", commanded)
                    said.clear()
                    superseded.clear()
                    ask(database, email=f"{name}@example.com")
                heard.append(tuple(sorted(said)))
                # One token and one mail: really, or on trial.
                assert sum(superseded) == 2, name
                everything.add(heard[-1])
        assert len(everything) == 1, "\n".join(map(str, everything))
        assert "-- outbox.enqueue_auth" in heard[0]


@pytest.mark.parametrize("setting", ["SIGNUP_COOLDOWN_SECONDS", "MAILBOX_LIMIT_PER_HOUR"])
@pytest.mark.parametrize("asks", [accounts.request_reset, accounts.resend_verification])
def test_nobody_switches_a_mailbox_off_with_sub_addresses_that_do_not_exist(
    world: World,
    environment: Callable[..., None],
    database: Database,
    asks: Callable[..., None],
    setting: str,
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    environment(**{"SIGNUP_COOLDOWN_SECONDS": "0", setting: "60" if "COOL" in setting else "1"})
    world.end_cooldowns()
    world.dispatch()
    for _ in range(6):
        asks(database, email="ada+nobody@example.com")
    for _ in range(2):
        asks(database, email=ADDRESS)
        world.dispatch()
    assert world.count("email_messages") == 2
    assert [m["to_addresses"] for m in world.rows(MESSAGES)] == [[ADDRESS]] * 2


def test_a_late_mail_with_a_dead_reset_is_not_sent(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """RST-08: what is still pending ends with its token, and leaves the queue."""
    _, token = reset()
    redeem(database, token)
    [mail] = world.rows(
        "SELECT status, failure_reason, attempt_count, finished_at IS NOT NULL AS is_over"
        " FROM postlease.email_messages WHERE template = 'reset_password'"
    )
    assert mail == {
        "status": "failed",
        "failure_reason": "superseded",
        "attempt_count": 0,
        "is_over": True,
    }
    with database.transaction() as connection:
        assert outbox.backlog(connection).queued == 1  # the verification's
