"""Idempotency keys: one effect, one answer, and nothing stored for work that did not commit."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg import Rollback

from postlease import accounts, idempotency
from postlease.errors import ConflictError, InvalidInputError, MalformedInputError
from postlease.idempotency import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import World

ADDRESS = "ada@example.com"
DAY = timedelta(days=1)
KEY = Key(key_digest=b"k" * 32, request_digest=b"r" * 32)
OTHER = Key(key_digest=b"k" * 32, request_digest=b"o" * 32)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("abc", "abc"),
        ('"abc"', "abc"),
        ("  abc\t", "abc"),
        ('"a b"', None),
        ("a,b", "a,b"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("k" * 255, "k" * 255),
        ('"' + "k" * 255 + '"', "k" * 255),
        ("k" * 256, None),
        ('"' + "k" * 256 + '"', None),
        ("", None),
        (" ", None),
        ('""', None),
        ('"abc', None),
        ('"a"b"', None),
        (r'"a\n"', None),
        ("a b", None),
        ("a\tb", None),
        ("a\n", None),
        ("clé", None),
        ("a\x7f", None),
        ("a\0", None),
    ],
)
def test_a_key_is_visible_ascii_bare_or_quoted(header: str, key: str | None) -> None:
    if key is not None:
        assert idempotency.parse(header) == key
        return
    with pytest.raises(MalformedInputError) as refused:
        idempotency.parse(header)
    assert refused.value.pointer == "Idempotency-Key"


def test_the_order_of_members_does_not_make_another_request() -> None:
    """IDM-02."""
    first = idempotency.canonical({"email": "a", "locale": None})
    assert idempotency.canonical({"locale": None, "email": "a"}) == first
    assert idempotency.canonical({"email": "a", "locale": "en"}) != first


def test_the_first_request_runs_and_the_second_gets_its_answer(
    world: World, database: Database
) -> None:
    with database.transaction() as connection:
        assert idempotency.begin(connection, KEY, lifetime=DAY) is None
        idempotency.finish(connection, KEY, status_code=202, response={"a": 1})
    with database.transaction() as connection:
        stored = idempotency.begin(connection, KEY, lifetime=DAY)
    assert stored == idempotency.StoredAnswer(202, {"a": 1})


def test_an_answer_once_stored_is_never_replaced(world: World, database: Database) -> None:
    with database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
        idempotency.finish(connection, KEY, status_code=202, response={"a": 1})
        idempotency.finish(connection, KEY, status_code=500, response={"a": 2})
        stored = idempotency.begin(connection, KEY, lifetime=DAY)
    assert stored == idempotency.StoredAnswer(202, {"a": 1})


def test_keys_do_not_share_an_answer(world: World, database: Database) -> None:
    second = Key(key_digest=b"2" * 32, request_digest=KEY.request_digest)
    with database.transaction() as connection:
        for key in (KEY, second):
            assert idempotency.begin(connection, key, lifetime=DAY) is None
        idempotency.finish(connection, KEY, status_code=202, response={"a": 1})
        idempotency.finish(connection, second, status_code=202, response={"a": 2})
        stored = [idempotency.begin(connection, key, lifetime=DAY) for key in (KEY, second)]
    assert [answer and answer.response for answer in stored] == [{"a": 1}, {"a": 2}]


def test_another_request_under_the_same_key_is_a_conflict(world: World, database: Database) -> None:
    with database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
        idempotency.finish(connection, KEY, status_code=202, response={})
    with pytest.raises(ConflictError) as reused, database.transaction() as connection:
        idempotency.begin(connection, OTHER, lifetime=DAY)
    assert reused.value.code == "idempotency-key-reused"


def test_work_that_rolled_back_leaves_its_key_free(world: World, database: Database) -> None:
    with database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
        idempotency.finish(connection, KEY, status_code=202, response={})
        raise Rollback
    with database.transaction() as connection:
        assert idempotency.begin(connection, OTHER, lifetime=DAY) is None


def test_an_expired_key_is_used_anew(world: World, database: Database) -> None:
    with database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
        idempotency.finish(connection, KEY, status_code=202, response={"first": True})
    world.owner.execute(
        "UPDATE postlease.idempotency_keys SET expires_at = now() - interval '1 second'"
    )
    with database.transaction() as connection:
        assert idempotency.begin(connection, OTHER, lifetime=DAY) is None
        idempotency.finish(connection, OTHER, status_code=202, response={"second": True})
    with database.transaction() as connection:
        stored = idempotency.begin(connection, OTHER, lifetime=DAY)
    assert stored == idempotency.StoredAnswer(202, {"second": True})
    [row] = world.rows("SELECT expires_at - created_at AS lifetime FROM postlease.idempotency_keys")
    assert row["lifetime"] == DAY


def test_a_second_request_waits_for_the_first_and_gets_its_answer(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()

    def ask() -> idempotency.StoredAnswer | None:
        with second.transaction() as connection:
            return idempotency.begin(connection, KEY, lifetime=DAY)

    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            idempotency.begin(connection, KEY, lifetime=DAY)
            waiting = pool.submit(ask)
            world.wait_until_blocked()
            idempotency.finish(connection, KEY, status_code=202, response={"a": 1})
        assert waiting.result(timeout=10) == idempotency.StoredAnswer(202, {"a": 1})


def test_a_second_request_runs_when_the_first_rolls_back(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()

    def ask() -> idempotency.StoredAnswer | None:
        with second.transaction() as connection:
            return idempotency.begin(connection, KEY, lifetime=DAY)

    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            idempotency.begin(connection, KEY, lifetime=DAY)
            waiting = pool.submit(ask)
            world.wait_until_blocked()
            raise Rollback
        assert waiting.result(timeout=10) is None


def test_another_request_that_waits_learns_of_the_conflict(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()

    def ask() -> object:
        with second.transaction() as connection:
            return idempotency.begin(connection, OTHER, lifetime=DAY)

    with ThreadPoolExecutor(1) as pool:
        with first.transaction() as connection:
            idempotency.begin(connection, KEY, lifetime=DAY)
            waiting = pool.submit(ask)
            world.wait_until_blocked()
            idempotency.finish(connection, KEY, status_code=202, response={})
        with pytest.raises(ConflictError) as reused:
            waiting.result(timeout=10)
    assert reused.value.code == "idempotency-key-reused"


def test_a_first_request_that_runs_on_is_a_conflict_after_two_seconds(
    world: World, open_database: Callable[[], Database]
) -> None:
    first, second = open_database(), open_database()
    answer = accounts.sign_up(first, email=ADDRESS, idempotency_key="key")
    with first.transaction() as connection:
        connection.execute("UPDATE postlease.idempotency_keys SET expires_at = expires_at")
        begun = time.monotonic()
        with pytest.raises(ConflictError) as in_progress:
            accounts.sign_up(second, email=ADDRESS, idempotency_key="key")
        assert 1.9 < time.monotonic() - begun < 3.9
    assert in_progress.value.code == "idempotency-key-in-progress"
    again = accounts.sign_up(second, email=ADDRESS, idempotency_key="key")
    assert (again.event_id, again.replayed) == (answer.event_id, True)


def test_a_key_without_an_answer_is_in_progress(world: World, database: Database) -> None:
    """No flow commits such a row; if one ever stands there, nobody gets an invented answer."""
    with database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
    with pytest.raises(ConflictError) as in_progress, database.transaction() as connection:
        idempotency.begin(connection, KEY, lifetime=DAY)
    assert in_progress.value.code == "idempotency-key-in-progress"


def test_a_replayed_sign_up_is_the_first_answer_even_after_the_cooldown(
    world: World, database: Database
) -> None:
    first = accounts.sign_up(database, email=ADDRESS, idempotency_key="key")
    world.end_cooldowns()
    again = accounts.sign_up(database, email=ADDRESS, idempotency_key='"key"')
    assert not first.replayed
    assert again == accounts.SignUp(first.user_id, first.event_id, "queued", replayed=True)
    assert world.count("email_messages") == 1


def test_another_address_is_another_scope(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS, idempotency_key="key")
    other = accounts.sign_up(database, email="bob@example.com", idempotency_key="key")
    assert not other.replayed
    assert world.count("users") == 2


def test_another_locale_under_the_same_key_is_a_conflict(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS, locale="en", idempotency_key="key")
    with pytest.raises(ConflictError) as reused:
        accounts.sign_up(database, email=ADDRESS, locale="de", idempotency_key="key")
    assert reused.value.code == "idempotency-key-reused"


def test_a_refused_request_leaves_no_key(world: World, database: Database) -> None:
    """IDM-05: the body is mended and sent again under the same key."""
    with pytest.raises(InvalidInputError):
        accounts.sign_up(database, email=ADDRESS, locale="?", idempotency_key="key")
    with pytest.raises(MalformedInputError):
        accounts.sign_up(database, email=ADDRESS, idempotency_key="a key")
    assert world.count("idempotency_keys") == 0
    assert not accounts.sign_up(database, email=ADDRESS, idempotency_key="key").replayed


def test_key_and_address_are_stored_as_digests_alone(world: World, database: Database) -> None:
    accounts.sign_up(database, email=ADDRESS, idempotency_key="canary-key")
    [row] = world.rows("SELECT t::text AS line FROM postlease.idempotency_keys AS t")
    assert "canary" not in row["line"]
    assert "ada" not in row["line"]
    assert re.search(r"evt_", row["line"])
