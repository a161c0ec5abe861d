"""The flows together with delivery: what leaves, which link works, what a stolen dump is worth."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from postlease import accounts
from postlease.errors import TokenError
from tests.integration.auth.test_accounts import ADDRESS
from tests.integration.auth.test_resetting import redeem
from tests.integration.delivery.conftest import Sweeps, sweeps

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

__all__ = ["sweeps"]  # a fixture


@pytest.fixture(autouse=True)
def without_cooldown(environment: Callable[..., None], world: World) -> None:
    """Every request is a new mail."""
    environment(SIGNUP_COOLDOWN_SECONDS="0")


def mailed(sweeps: Sweeps) -> list[str]:
    """The token in each mail that left, in their order."""
    texts = [mail["text"] for mail in sweeps.inbox()]
    return [token for text in texts for token in re.findall(r"#token=([\w-]{64})", text)]


def test_of_three_quick_resends_one_mail_leaves_and_its_link_works(
    world: World, database: Database, sweeps: Sweeps
) -> None:
    """VER-06: nobody can follow an older link, since none was sent."""
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    for _ in range(3):
        accounts.resend_verification(database, email=ADDRESS)
    assert sweeps.run().counts["sent"] == 1
    *older, newest = world.tokens_of(ADDRESS)
    assert mailed(sweeps) == [newest]
    for token in older:
        with pytest.raises(TokenError, match="token-superseded"):
            accounts.verify(database, token=token)
    assert accounts.verify(database, token=newest).user_id == user_id


def test_with_a_cooldown_three_quick_resends_are_the_mail_that_exists(
    world: World, environment: Callable[..., None], database: Database, sweeps: Sweeps
) -> None:
    """RSD-01, RSD-05."""
    environment(SIGNUP_COOLDOWN_SECONDS="60")
    events = {accounts.sign_up(database, email=ADDRESS).event_id}
    for _ in range(3):
        accounts.resend_verification(database, email=ADDRESS)
        events.add(accounts.sign_up(database, email=ADDRESS).event_id)
    sweeps.run()
    assert len(events) == len(sweeps.inbox()) == 1


@pytest.mark.parametrize("sent_between", [True, False])
def test_of_two_resets_only_the_newest_link_works_whatever_was_mailed(
    world: World, database: Database, sweeps: Sweeps, *, sent_between: bool
) -> None:
    """RST-01, RST-08."""
    user_id = accounts.sign_up(database, email=ADDRESS).user_id
    sweeps.run()
    accounts.request_reset(database, email=ADDRESS)
    if sent_between:
        sweeps.run()
    accounts.request_reset(database, email=ADDRESS)
    sweeps.run()
    _, *resets = mailed(sweeps)
    assert len(resets) == 1 + sent_between
    older, newest = world.tokens_of(ADDRESS, "reset_password")
    assert resets[-1] == newest
    with pytest.raises(TokenError, match="token-superseded"):
        redeem(database, older)
    assert redeem(database, newest).user_id == user_id


def test_nothing_in_a_dump_verifies_or_resets(
    world: World, environment: Callable[..., None], database: Database, sweeps: Sweeps
) -> None:
    environment(VERIFY_CODES="on")
    accounts.sign_up(database, email=ADDRESS, idempotency_key="key")
    sweeps.run()  # one sweep's mails leave in any order
    accounts.request_reset(database, email=ADDRESS)
    sweeps.run()
    accounts.sign_up(database, email="bob@example.com")
    accounts.request_reset(database, email="bob@example.com")
    redeem(database, mailed(sweeps)[1], "key")
    dump = world.dump()
    before = world.rows("SELECT id, verified_at FROM postlease.users ORDER BY id")
    texts = set(re.findall(r"[A-Za-z0-9_+/=-]{6,}", dump))
    assert len(texts) > 100
    for text in texts:
        with pytest.raises(TokenError, match="token-invalid"):
            accounts.verify(database, token=text)
        with pytest.raises(TokenError, match="token-invalid"):
            redeem(database, text)
    for code in sorted(set(re.findall(r"(?<!\d)\d{6}(?!\d)", dump)))[:5]:
        with pytest.raises(TokenError, match="token-invalid"):
            accounts.try_code(database, email=ADDRESS, code=code)
    assert world.rows("SELECT id, verified_at FROM postlease.users ORDER BY id") == before
    # What was mailed works, so that the trying above means something.
    assert accounts.verify(database, token=mailed(sweeps)[0])
