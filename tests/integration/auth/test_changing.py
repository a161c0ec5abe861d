"""Another address, an account closed, a password changed: links that prove what is over end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from postlease import accounts, outbox
from postlease.errors import (
    ConflictError,
    InvalidInputError,
    MalformedInputError,
    TokenError,
    UnavailableError,
)
from postlease.model import parse_event_id
from tests import arrange
from tests.integration.auth.test_accounts import ADDRESS, MESSAGES, together
from tests.integration.auth.test_resetting import redeem

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from postlease.database import Database
    from tests.integration.auth.conftest import World

NEW = "ada.new@example.com"


def ended_mail(world: World) -> list[tuple[str, str | None]]:
    """Each mail's template and why it failed."""
    return [(m["template"], m["failure_reason"]) for m in world.rows(MESSAGES)]


def test_a_new_address_is_not_verified_and_gets_a_mail(world: World, database: Database) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS, locale="de").user_id
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    changed = accounts.change_address(database, str(user_id), email="Ada.New@Example.com")
    user = world.user(user_id)
    assert (user["email"], user["email_canonical"]) == ("Ada.New@example.com", NEW)
    assert user["verified_at"] is None
    [mail] = world.rows("SELECT id FROM postlease.email_messages WHERE status = 'pending'")
    assert changed
    assert (changed.user_id, parse_event_id(str(changed.event_id))) == (user_id, mail["id"])
    assert world.rows(MESSAGES)[-1]["to_addresses"] == ["Ada.New@example.com"]
    assert world.rows(MESSAGES)[-1]["locale"] == "de"
    assert accounts.verify(database, token=world.tokens_of(NEW)[-1]).user_id == user_id


EVENTS: dict[str, Callable[[Database, str, str], Any]] = {
    "another reset used": lambda database, _, newer: redeem(database, newer),
    "password changed": lambda database, user_id, _: accounts.revoke_resets(database, user_id),
    "address changed": lambda database, user_id, _: accounts.change_address(
        database, user_id, email=NEW
    ),
    "account closed": lambda database, user_id, _: accounts.close(database, user_id),
}


@pytest.mark.parametrize("event", EVENTS)
def test_an_outstanding_reset_ends_with_its_pending_mail(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]], event: str
) -> None:
    """RST-03."""
    user_id, older = reset()
    world.end_cooldowns()
    accounts.request_reset(database, email=ADDRESS)
    newer = world.tokens_of(ADDRESS, "reset_password")[-1]
    EVENTS[event](database, str(user_id), newer)
    wanted = {"another reset used": "token-used", "account closed": "token-invalid"}
    with pytest.raises(TokenError, match=wanted.get(event, "token-superseded")):
        redeem(database, newer)
    with pytest.raises(TokenError):
        redeem(database, older)
    assert ("reset_password", None) not in ended_mail(world)


def test_a_changed_password_leaves_the_verification_alone(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    user_id, _ = reset()
    assert accounts.revoke_resets(database, str(user_id)) == user_id
    assert ended_mail(world) == [("verify_email", None), ("reset_password", "superseded")]
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


@pytest.mark.parametrize("event", ["address changed", "account closed"])
def test_an_outstanding_verification_ends_with_its_pending_mail(
    world: World, database: Database, event: str
) -> None:
    """RST-08, VER-06: what a late mail carries verifies nothing."""
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    [token] = world.tokens_of(ADDRESS)
    EVENTS[event](database, str(user_id), "")
    assert ended_mail(world)[0] == ("verify_email", "superseded")
    with pytest.raises(TokenError, match=r"token-superseded|token-invalid"):
        accounts.verify(database, token=token)


def test_a_mail_on_its_way_is_stopped_when_its_account_closes(
    world: World, database: Database
) -> None:
    """RST-08."""
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    with database.transaction() as connection:
        [claimed] = arrange.claim(connection)
    accounts.close(database, str(user_id))
    with database.transaction() as connection:
        verdict = arrange.authorize(connection, claimed.claim)[claimed.claim.message_id]
    assert verdict.word == "superseded"


@pytest.mark.parametrize("event", ["address changed", "account closed"])
def test_a_note_to_the_old_address_is_not_sent(
    world: World, database: Database, event: str
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.sign_up(database, email=ADDRESS)
    EVENTS[event](database, str(user_id), "")
    assert ended_mail(world)[1] == ("account_exists", "superseded")


def test_a_note_ends_whatever_its_spelling(world: World, database: Database) -> None:
    for email, later in (
        ("ada@example.com", "Ada@example.com"),
        ("Bob@Example.com", "bob@EXAMPLE.com"),
    ):
        user_id = accounts.sign_up(database, email=email).user_id
        accounts.verify(database, token=world.tokens_of(email.lower())[0])
        accounts.sign_up(database, email=email)
        accounts.change_address(database, str(user_id), email=later)
        assert ended_mail(world)[-1] == ("account_exists", None)
        accounts.close(database, str(user_id))
        assert ended_mail(world)[-1] == ("account_exists", "superseded")


@pytest.mark.parametrize("event", ["address changed", "account closed"])
def test_a_note_on_its_way_to_the_old_address_is_stopped(
    world: World, database: Database, event: str
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.sign_up(database, email=ADDRESS)
    with database.transaction() as connection:
        claimed = arrange.claim(connection, 2)
    EVENTS[event](database, str(user_id), "")
    with database.transaction() as connection:
        verdicts = arrange.authorize(connection, *(message.claim for message in claimed))
    assert {verdict.word for verdict in verdicts.values()} == {"superseded"}


def test_only_pending_notes_are_ended(world: World, database: Database) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    accounts.sign_up(database, email=ADDRESS)
    with database.transaction() as connection:
        [claimed] = arrange.claim(connection)
    with database.transaction() as connection:
        other = outbox.enqueue_auth(connection, template="welcome", user_id=user_id)
    accounts.close(database, str(user_id))
    left = world.rows("SELECT id FROM postlease.email_messages WHERE finished_at IS NULL")
    assert {row["id"] for row in left} == {other, claimed.claim.message_id}


def test_another_account_is_left_alone(world: World, database: Database) -> None:
    bob = accounts.sign_up(database, email="bob@example.com").user_id
    accounts.verify(database, token=world.tokens_of("bob@example.com")[0])
    accounts.sign_up(database, email="bob@example.com")
    accounts.request_reset(database, email="bob@example.com")
    before = world.user(bob)
    user_id = str(accounts.sign_up(database, email=ADDRESS).user_id)
    accounts.change_address(database, user_id, email="ADA@example.com")
    assert world.user(bob) == before
    accounts.change_address(database, user_id, email=NEW)
    assert world.user(bob) == before
    accounts.revoke_resets(database, user_id)
    accounts.close(database, user_id)
    assert world.user(bob) == before
    pending = world.rows(
        "SELECT template FROM postlease.email_messages WHERE status = 'pending' ORDER BY created_at"
    )
    assert [row["template"] for row in pending] == ["account_exists", "reset_password"]


def test_the_address_that_is_there_already_changes_its_spelling_alone(
    world: World, database: Database
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    verified = accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    changed = accounts.change_address(database, str(user_id), email="Ada@example.com")
    assert changed == accounts.Changed(user_id, None)
    user = world.user(user_id)
    assert (user["email"], user["verified_at"]) == ("Ada@example.com", verified.verified_at)
    assert world.count("email_messages") == 1


def test_a_link_that_proved_the_old_address_says_so_no_more(
    world: World, database: Database
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    [old] = world.tokens_of(ADDRESS)
    accounts.verify(database, token=old)
    accounts.change_address(database, str(user_id), email=NEW)
    new = world.tokens_of(NEW)[-1]
    verified = accounts.verify(database, token=new)
    with pytest.raises(TokenError, match="token-superseded"):
        accounts.verify(database, token=old)
    assert accounts.verify(database, token=new) == verified


def test_an_address_that_another_account_has_is_a_conflict_and_changes_nothing(
    world: World, database: Database
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    accounts.sign_up(database, email=NEW)
    before = world.dump()
    with pytest.raises(ConflictError) as taken:
        accounts.change_address(database, str(user_id), email=NEW)
    assert taken.value.code == "address-taken"
    assert "ada" not in str(taken.value)
    assert world.dump() == before


def test_two_accounts_cannot_take_one_address_at_once(
    world: World, open_database: Callable[[], Database], database: Database
) -> None:
    ids = [accounts.sign_up(database, email=f"user{n}@example.com").user_id for n in range(8)]
    processes = [open_database() for _ in ids]
    answers = together(8, lambda n: accounts.change_address(processes[n], str(ids[n]), email=NEW))
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    assert len(errors) == 7
    assert all(isinstance(error, ConflictError) for error in errors)


def test_who_signs_up_with_a_freed_address_is_not_answered_with_the_old_mail(
    world: World, database: Database
) -> None:
    """RSD-03."""
    first = accounts.sign_up(database, email=ADDRESS)
    accounts.change_address(database, str(first.user_id), email=NEW)
    second = accounts.sign_up(database, email=ADDRESS)
    assert second.user_id != first.user_id
    assert second.status == "queued"
    accounts.close(database, str(second.user_id))
    assert accounts.sign_up(database, email=ADDRESS).status == "queued"


@pytest.mark.parametrize("event", ["address changed", "account closed"])
def test_a_mail_that_never_left_holds_no_sign_up(
    world: World, environment: Callable[..., None], database: Database, event: str
) -> None:
    environment(MAILBOX_LIMIT_PER_HOUR="1")
    first = accounts.sign_up(database, email=ADDRESS)
    EVENTS[event](database, str(first.user_id), "")
    second = accounts.sign_up(database, email=ADDRESS)
    assert second.status == "queued"
    assert second.event_id != first.event_id
    assert accounts.sign_up(database, email=ADDRESS) == second
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


def test_a_mail_for_a_new_address_begins_its_cooldown(world: World, database: Database) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    changed = accounts.change_address(database, str(user_id), email=NEW)
    assert changed
    assert accounts.sign_up(database, email=NEW).event_id == changed.event_id


def test_a_sub_address_of_the_same_mailbox_is_another_address(
    world: World, database: Database
) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    changed = accounts.change_address(database, str(user_id), email="ada+x@example.com")
    assert changed
    assert accounts.sign_up(database, email="ada+x@example.com").event_id == changed.event_id


def test_a_revoked_reset_does_not_swallow_the_next_request(
    world: World, database: Database, reset: Callable[[], tuple[UUID, str]]
) -> None:
    """RSD-03."""
    user_id, _ = reset()
    accounts.revoke_resets(database, str(user_id))
    accounts.request_reset(database, email=ADDRESS)
    assert redeem(database, world.tokens_of(ADDRESS, "reset_password")[-1])


def test_a_closed_account_is_gone_and_can_be_made_anew(world: World, database: Database) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    [token] = world.tokens_of(ADDRESS)
    assert accounts.close(database, str(user_id))
    assert world.count("users") == 0
    with pytest.raises(TokenError, match="token-invalid"):
        accounts.verify(database, token=token)
    assert not accounts.close(database, str(user_id))
    assert accounts.sign_up(database, email=ADDRESS).user_id != user_id


def test_a_user_that_is_not_there_is_told(world: World, database: Database) -> None:
    nobody = str(uuid4())
    assert accounts.change_address(database, nobody, email=NEW) is None
    assert accounts.close(database, nobody) is False
    assert accounts.revoke_resets(database, nobody) is None
    assert world.count("rate_limits") == 0


@pytest.mark.parametrize("wire", ["", "1", "evt_01JZ8Q4G7N3V5X9B2D6F8H0K1M", "{" + "0" * 36 + "}"])
def test_a_malformed_id_is_refused(world: World, database: Database, wire: str) -> None:
    for act in (
        lambda: accounts.change_address(database, wire, email=NEW),
        lambda: accounts.close(database, wire),
        lambda: accounts.revoke_resets(database, wire),
    ):
        with pytest.raises(MalformedInputError) as refused:
            act()
        assert refused.value.pointer == "id"


def test_an_invalid_address_is_refused(world: World, database: Database) -> None:
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    with pytest.raises(InvalidInputError) as refused:
        accounts.change_address(database, str(user_id), email="ada@@example.com")
    assert refused.value.pointer == "/email"


def test_a_change_waits_for_whoever_holds_the_account(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()
    user_id = accounts.sign_up(first, email=ADDRESS).user_id
    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            connection.execute("SELECT FROM postlease.users FOR NO KEY UPDATE")
            waiting = pool.submit(accounts.revoke_resets, second, str(user_id))
            world.wait_until_blocked()
            connection.execute("UPDATE postlease.users SET email_canonical = %s", [NEW])
        with pytest.raises(UnavailableError):
            waiting.result(timeout=10)
    assert accounts.revoke_resets(second, str(user_id)) == user_id
