"""One mailbox is written to so often an hour and a day, and nobody can tell by the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from postlease import accounts
from tests.integration.auth.test_accounts import ADDRESS, MESSAGES, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

NO_COOLDOWN = {"SIGNUP_COOLDOWN_SECONDS": "0"}


@pytest.fixture(params=["HOUR", "DAY"])
def limited(request: pytest.FixtureRequest, environment: Callable[..., None], world: World) -> None:
    """No cooldown; three mails an hour, or a day."""
    limits = {"MAILBOX_LIMIT_PER_HOUR": "0", "MAILBOX_LIMIT_PER_DAY": "0"}
    environment(**NO_COOLDOWN, **limits | {f"MAILBOX_LIMIT_PER_{request.param}": "3"})


@pytest.mark.usefixtures("limited")
def test_beyond_the_limit_the_last_event_is_the_answer(world: World, database: Database) -> None:
    """RSD-01."""
    answers = [accounts.sign_up(database, email=ADDRESS) for _ in range(6)]
    assert len({answer.event_id for answer in answers[:3]}) == 3
    assert set(answers[2:]) == {answers[2]}
    assert [m["status"] for m in world.rows(MESSAGES)] == ["failed", "failed", "pending"]
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[-1])


@pytest.mark.usefixtures("limited")
def test_all_addresses_of_a_mailbox_count_together_in_each_flow(
    world: World, database: Database
) -> None:
    """RSD-01."""
    for _ in range(2):
        accounts.sign_up(database, email=ADDRESS)
        accounts.sign_up(database, email="ada+x@example.com")
    assert world.count("email_messages") == 3
    for _ in range(2):
        for address in (ADDRESS, "ada+x@example.com"):
            world.dispatch()  # what has not left is replaced, which adds no mail
            accounts.resend_verification(database, email=address)
    assert world.count("email_messages") == 3 + 3
    accounts.request_reset(database, email=ADDRESS)
    accounts.sign_up(database, email="bob@example.com")
    assert world.count("email_messages") == 3 + 3 + 2


@pytest.mark.usefixtures("limited")
def test_completing_a_flow_does_not_lift_the_limit(world: World, database: Database) -> None:
    """Else whoever holds a link could have one mail after another."""
    accounts.sign_up(database, email=ADDRESS)
    accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    for _ in range(5):
        accounts.sign_up(database, email=ADDRESS)
    assert world.count("email_messages") == 3


@pytest.mark.usefixtures("limited")
def test_the_limit_ends_with_its_window(world: World, database: Database) -> None:
    for _ in range(4):
        accounts.sign_up(database, email=ADDRESS)
    world.end_cooldowns()
    accounts.sign_up(database, email=ADDRESS)
    assert world.count("email_messages") == 3 + 1


@pytest.mark.usefixtures("limited")
def test_what_was_asked_for_an_unknown_address_uses_nothing_up(
    world: World, database: Database
) -> None:
    for _ in range(5):
        accounts.resend_verification(database, email=ADDRESS)
    answers = [accounts.sign_up(database, email=ADDRESS) for _ in range(4)]
    assert len({answer.event_id for answer in answers}) == 3
    assert answers[2] == answers[3]
    assert world.count("email_messages") == 3


@pytest.mark.usefixtures("limited")
def test_the_limit_holds_under_parallel_requests(
    world: World, open_database: Callable[[], Database]
) -> None:
    """RSD-01: twenty ways at once, whatever the keys.

    An upper bound: even without a cooldown, a request that began before another's end counts as
    inside its window, and is answered with its mail.
    """
    processes = [open_database() for _ in range(20)]
    answers = together(
        20,
        lambda n: accounts.sign_up(processes[n], email=ADDRESS, idempotency_key=f"key-{n}"),
    )
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert 1 <= world.count("email_messages") <= 3
    for _ in range(4):
        accounts.sign_up(processes[0], email=ADDRESS)
    assert world.count("email_messages") == 3


def test_without_limits_every_request_mails(
    world: World, environment: Callable[..., None], database: Database
) -> None:
    environment(**NO_COOLDOWN, MAILBOX_LIMIT_PER_HOUR="0", MAILBOX_LIMIT_PER_DAY="0")
    for _ in range(8):
        accounts.request_reset(database, email=ADDRESS)
        accounts.sign_up(database, email=ADDRESS)
    assert world.count("email_messages") == 8 + 7
