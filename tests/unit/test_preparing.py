"""What a run reads to prepare its mails: each secret once, and the keys anew for a new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from postlease import secret_store, tokens
from postlease.config import read_settings
from postlease.delivery.preparing import Preparer
from postlease.errors import TokenKeyUnknownError, UnavailableError
from postlease.model import Claim, ClaimedMessage, TokenFacts
from postlease.rendering import SHIPPED, Templates
from tests.unit.test_config import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable

PEPPER = "pepper-" * 8
KEYS = {name: f"a key of 43 characters or more, named {name}: {name}" for name in ("k1", "k2")}
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEMPLATES = Templates(SHIPPED)


class Store:
    """The secret store: what it holds, what it was asked for, and whether it answers."""

    def __init__(self) -> None:
        self.names = ["k1"]
        self.asked: list[tuple[str, bool]] = []
        self.is_there = True

    def text(self, arn: str, *, refresh: bool = False) -> str:
        self.asked.append((arn, refresh))
        if not self.is_there:
            raise UnavailableError("away")
        return PEPPER

    def ring(self, arn: str, *, refresh: bool = False) -> dict[str, str]:
        self.text(arn, refresh=refresh)
        return {"current": "k1"} | {name: KEYS[name] for name in self.names}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(secret_store, "read_text", made.text)
    monkeypatch.setattr(secret_store, "read_json", made.ring)
    return made


@pytest.fixture
def prepare(store: Store) -> Callable[[str], str]:
    """Prepare a verification mail whose token was made with a key; its content."""
    preparer = Preparer(read_settings(REQUIRED), TEMPLATES)
    return lambda key_id: preparer.prepare(message(key_id)).mail.content.decode()


def message(key_id: str) -> ClaimedMessage:
    token_id, user_id = UUID(int=7), UUID(int=8)
    token = tokens.derive(
        KEYS[key_id].encode(), purpose="verify_email", token_id=token_id, version=1, user_id=user_id
    )
    return ClaimedMessage(
        claim=Claim(uuid4(), "owner", 1),
        priority=0,
        available_at=NOW,
        created_at=NOW,
        lease_expires_at=NOW + timedelta(seconds=45),
        template="verify_email",
        locale="en",
        delivery="at_least_once",
        attempts_left=4,
        counted_attempts=1,
        retry_count=0,
        parameters_json="{}",
        to_addresses=("ada@example.com",),
        cc_addresses=(),
        bcc_addresses=(),
        recipient_names={},
        from_address=None,
        reply_to=None,
        tags={},
        token=TokenFacts(token_id, user_id, "verify_email", 1, key_id, tokens.token_hash(token)),
        attachments=(),
    )


def test_a_run_reads_each_secret_once(store: Store, prepare: Callable[[str], str]) -> None:
    for _ in range(3):
        prepare("k1")
    assert store.asked == [("arn:token-keys", False), ("arn:pepper", False)]


def test_a_key_that_came_meanwhile_is_looked_for_and_the_others_stay(
    store: Store, prepare: Callable[[str], str]
) -> None:
    prepare("k1")
    store.names.append("k2")
    prepare("k2")
    prepare("k1")
    assert [refresh for arn, refresh in store.asked if arn == "arn:token-keys"] == [False, True]


def test_a_key_that_nobody_has_is_looked_for_each_time(
    store: Store, prepare: Callable[[str], str]
) -> None:
    for _ in range(2):
        with pytest.raises(TokenKeyUnknownError):
            prepare("k2")
    assert [refresh for _, refresh in store.asked] == [False, True, True]


def test_a_store_that_was_away_is_asked_again(store: Store, prepare: Callable[[str], str]) -> None:
    store.is_there = False
    with pytest.raises(UnavailableError):
        prepare("k1")
    store.is_there = True
    prepare("k1")
    assert store.asked[-1] == ("arn:pepper", False)
