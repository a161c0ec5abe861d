"""Six digits beside an address: few tries, one answer to all that is wrong, the link untouched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from postlease import accounts, tokens
from postlease.errors import InvalidInputError, TokenError
from postlease.model import TokenFacts
from tests.integration.auth.test_accounts import ADDRESS, MESSAGES, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Database
    from tests.integration.auth.conftest import Api, World

NEWEST = """
SELECT t.id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash
FROM postlease.verification_tokens AS t JOIN postlease.users AS u ON u.id = t.user_id
WHERE u.email_canonical = %s AND t.purpose = 'verify_email' ORDER BY t.version DESC LIMIT 1
"""


pytestmark = pytest.mark.usefixtures("codes")


def code_of(world: World, address: str = ADDRESS) -> str:
    """The code of the user's newest token, as its mail shows it."""
    [found] = world.rows(NEWEST, address)
    return tokens.code_again(world.ring, TokenFacts(**found))


def wrong(world: World, address: str = ADDRESS) -> str:
    """Six digits that are not the code."""
    return f"{(int(code_of(world, address)) + 1) % 1_000_000:06d}"


def refused(database: Database, code: str, email: str = ADDRESS) -> None:
    """A try that is answered as all that fail are."""
    with pytest.raises(TokenError) as error:
        accounts.try_code(database, email=email, code=code)
    assert error.value.code == "token-invalid"


@pytest.mark.parametrize("between", ["", " ", "-", "\u00a0", "\n"])
def test_the_code_verifies_as_the_link_does(
    world: World, database: Database, mailed: accounts.SignUp, between: str
) -> None:
    code = code_of(world)
    typed = f" {code[:3]}{between}{code[3:]} "
    verified = accounts.try_code(database, email="ADA@example.com", code=typed)
    assert verified.user_id == mailed.user_id
    assert world.user(mailed.user_id)["verified_at"] == verified.verified_at
    [token] = world.rows("SELECT redeemed_at FROM postlease.verification_tokens")
    assert token["redeemed_at"] == verified.verified_at
    # The link says the same from now on, and so does the code.
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0]) == verified
    assert accounts.try_code(database, email=ADDRESS, code=code) == verified


def test_a_used_link_makes_the_code_a_repeat(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    verified = accounts.verify(database, token=world.tokens_of(ADDRESS)[0])
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world)) == verified
    world.owner.execute("UPDATE postlease.users SET verified_at = NULL")
    refused(database, code_of(world))
    world.owner.execute("UPDATE postlease.users SET verified_at = now()")  # by another proof
    refused(database, code_of(world))


def test_five_wrong_tries_end_the_code_and_never_the_link(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    for _ in range(5):
        refused(database, wrong(world))
    [token] = world.rows("SELECT code_attempts FROM postlease.verification_tokens")
    assert token["code_attempts"] == 5, "counted although the answer was an error"
    refused(database, code_of(world))
    assert world.user(mailed.user_id)["verified_at"] is None
    assert accounts.verify(database, token=world.tokens_of(ADDRESS)[0])


def test_the_fifth_try_may_be_the_right_one(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    for _ in range(4):
        refused(database, wrong(world))
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


@pytest.mark.parametrize("address", [ADDRESS, "nobody@example.com"])
def test_an_address_has_ten_tries_a_day_whatever_its_tokens(
    world: World, database: Database, mailed: accounts.SignUp, address: str
) -> None:
    for number in range(10):
        if number == 5 and address == ADDRESS:
            world.end_cooldowns_of_mail()
            accounts.resend_verification(database, email=ADDRESS)
            world.dispatch()
        refused(database, wrong(world), address)
    [row] = world.rows(
        "SELECT used, message_id FROM postlease.rate_limits"
        " WHERE window_ends_at - window_started_at = interval '1 day' AND message_id IS NULL"
    )
    assert row["used"] == 10
    world.end_cooldowns_of_mail()
    accounts.resend_verification(database, email=ADDRESS)
    world.dispatch()
    if address == ADDRESS:
        refused(database, code_of(world))
        world.end_cooldowns()
        assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_nobody_uses_up_an_address_s_tries_with_a_sub_address_of_it(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    for _ in range(10):
        refused(database, "000000", "ada+nobody@example.com")
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_a_code_is_good_for_ten_minutes_from_its_dispatch(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    world.dispatch(seconds_ago=610)
    refused(database, code_of(world))
    world.dispatch(seconds_ago=590)
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


ATTEMPTED = """
UPDATE postlease.email_messages SET attempts = jsonb_build_array(
    jsonb_build_object('attempt', 1, 'outcome', %s::text,
                       'dispatched_at', now() - make_interval(secs => %s)),
    jsonb_build_object('attempt', 2, 'outcome', %s::text,
                       'dispatched_at', now() - interval '5 minutes'),
    jsonb_build_object('attempt', 3, 'outcome', 'worker_lost', 'dispatched_at', NULL))
RETURNING id
"""


def test_a_code_is_good_although_nobody_knows_whether_its_mail_left(
    world: World, database: Database, signed_up: Callable[[str], accounts.SignUp]
) -> None:
    signed_up(ADDRESS)
    world.rows(ATTEMPTED, "unknown", 610, "unknown")
    refused(database, code_of(world))
    world.rows(ATTEMPTED, "unknown", 590, "unknown")
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_a_code_gains_no_time_by_a_second_dispatch(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    world.rows(ATTEMPTED, "unknown", 610, "deferred")
    refused(database, code_of(world))
    world.rows(ATTEMPTED, "deferred", 610, "unknown")
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_a_code_that_was_not_mailed_yet_is_none(
    world: World, database: Database, codes: None
) -> None:
    accounts.sign_up(database, email=ADDRESS)
    accounts.sign_up(database, email="bob@example.com")
    world.rows(
        "UPDATE postlease.email_messages SET status = 'sent', provider = 'ses', sent_at = now(),"
        " provider_message_id = 'p', finished_at = now(), dispatched_at = now()"
        " WHERE to_addresses = ARRAY['bob@example.com'] RETURNING 1"
    )
    refused(database, code_of(world))


def test_an_expired_token_has_no_code(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    refused(database, code_of(world))


def test_an_expired_token_has_no_code_even_if_redeemed(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    code = code_of(world)
    accounts.try_code(database, email=ADDRESS, code=code)
    world.owner.execute(
        "UPDATE postlease.verification_tokens"
        " SET created_at = now() - interval '2 days', expires_at = now() - interval '1 second'"
    )
    refused(database, code)


def test_only_the_newest_redeemed_code_is_asked(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    older = code_of(world)
    accounts.try_code(database, email=ADDRESS, code=older)
    world.owner.execute("UPDATE postlease.users SET verified_at = NULL")
    accounts.resend_verification(database, email=ADDRESS)
    world.dispatch()
    newer = code_of(world)
    verified = accounts.try_code(database, email=ADDRESS, code=newer)
    refused(database, older)
    assert accounts.try_code(database, email=ADDRESS, code=newer) == verified


def test_a_try_that_waited_sees_what_happened_meanwhile(
    world: World, open_database: Callable[[], Database], mailed: accounts.SignUp
) -> None:
    first, second = open_database(), open_database()
    code = code_of(world)

    def attempt() -> accounts.Verified:
        return accounts.try_code(second, email=ADDRESS, code=code)

    for change, outcome in (
        ("verification_tokens SET redeemed_at = now()", None),
        ("verification_tokens SET redeemed_at = NULL, superseded_at = now()", "token-invalid"),
    ):
        with ThreadPoolExecutor(1) as pool:
            with first.transaction() as connection:
                connection.execute("UPDATE postlease.users SET verified_at = now()")
                waiting = pool.submit(attempt)
                world.wait_until_blocked()
                connection.execute(f"UPDATE postlease.{change}".encode())
            if outcome is None:
                assert waiting.result(timeout=10).user_id == mailed.user_id
            else:
                with pytest.raises(TokenError, match=outcome):
                    waiting.result(timeout=10)


def test_only_the_newest_code_works(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    """VER-06."""
    older = code_of(world)
    world.end_cooldowns_of_mail()
    accounts.resend_verification(database, email=ADDRESS)
    world.dispatch()
    refused(database, older)
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_a_superseded_token_has_no_code(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    code = code_of(world)
    world.owner.execute("UPDATE postlease.verification_tokens SET superseded_at = now()")
    refused(database, code)


def test_a_superseded_token_has_no_code_even_if_verified(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    """The code of the newest that still counts is asked for, whatever came after it."""
    code = code_of(world)
    verified = accounts.try_code(database, email=ADDRESS, code=code)
    world.rows(
        "INSERT INTO postlease.verification_tokens"
        " (user_id, purpose, version, token_hash, key_id, expires_at, superseded_at)"
        " VALUES (%s, 'verify_email', 9, sha256('x'), 'k2', now() + interval '1 hour', now())"
        " RETURNING id",
        mailed.user_id,
    )
    assert accounts.try_code(database, email=ADDRESS, code=code) == verified


def test_a_code_serves_its_own_address_and_purpose(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    accounts.sign_up(database, email="bob@example.com")
    world.end_cooldowns_of_mail()
    accounts.resend_verification(database, email=ADDRESS)  # its version is above the other's
    for _ in range(3):  # and the reset's above both
        world.end_cooldowns_of_mail()
        accounts.request_reset(database, email=ADDRESS)
    world.dispatch()
    refused(database, code_of(world), "bob@example.com")
    verified = accounts.try_code(
        database, email="bob@example.com", code=code_of(world, "bob@example.com")
    )
    resets = world.rows(
        "SELECT code_attempts FROM postlease.verification_tokens WHERE purpose = 'reset_password'"
    )
    assert {row["code_attempts"] for row in resets} == {0}
    assert verified.user_id != mailed.user_id
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


def test_one_account_s_tries_are_not_another_s(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    accounts.sign_up(database, email="bob@example.com")
    world.dispatch()
    for _ in range(5):
        refused(database, wrong(world, "bob@example.com"), "bob@example.com")
    assert accounts.try_code(database, email=ADDRESS, code=code_of(world))


@pytest.mark.parametrize(
    "code", ["", "1", "12345", "1234567", "abcdef", "\uff11" * 6, "\ud800", " "]
)
def test_what_is_no_code_is_a_wrong_one(
    world: World, database: Database, mailed: accounts.SignUp, code: str
) -> None:
    refused(database, code)
    [token] = world.rows("SELECT code_attempts FROM postlease.verification_tokens")
    assert token["code_attempts"] == 1


def test_where_codes_are_off_none_works_and_nothing_is_counted(
    world: World, database: Database, mailed: accounts.SignUp, environment: Callable[..., None]
) -> None:
    environment(VERIFY_CODES="off")
    before = world.dump()
    refused(database, code_of(world))
    assert world.dump() == before


def test_an_invalid_address_is_refused(world: World, database: Database) -> None:
    with pytest.raises(InvalidInputError) as error:
        accounts.try_code(database, email="ada@@example.com", code="000000")
    assert error.value.pointer == "/email"


def test_a_key_that_is_gone_makes_no_code(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    code = code_of(world)
    world.owner.execute("UPDATE postlease.verification_tokens SET key_id = 'gone'")
    refused(database, code)


def test_a_right_code_ends_the_cooldown_and_the_mail_that_has_not_left(
    world: World, database: Database, mailed: accounts.SignUp
) -> None:
    """RSD-03."""
    accounts.try_code(database, email=ADDRESS, code=code_of(world))
    accounts.sign_up(database, email=ADDRESS)
    assert [m["template"] for m in world.rows(MESSAGES)] == ["verify_email", "account_exists"]


def test_parallel_guesses_have_five_tries_together(
    world: World, open_database: Callable[[], Database], mailed: accounts.SignUp
) -> None:
    processes = [open_database() for _ in range(20)]
    code = wrong(world)

    def guess(number: int) -> Any:
        return accounts.try_code(processes[number], email=ADDRESS, code=code)

    assert {str(answer) for answer in together(20, guess)} == {"token-invalid"}
    [token] = world.rows("SELECT code_attempts FROM postlease.verification_tokens")
    assert token["code_attempts"] == 5


def test_fifty_right_codes_at_once_are_one_change_and_few_answers(
    world: World, open_database: Callable[[], Database], mailed: accounts.SignUp
) -> None:
    """VER-11: no 5xx, and the same success for whoever had a try left."""
    processes = [open_database() for _ in range(50)]
    code = code_of(world)
    answers = together(50, lambda n: accounts.try_code(processes[n], email=ADDRESS, code=code))
    verified = [answer for answer in answers if isinstance(answer, accounts.Verified)]
    assert len(verified) == 5
    assert len(set(verified)) == 1
    assert {str(a) for a in answers if isinstance(a, Exception)} == {"token-invalid"}


def test_over_http_all_that_fails_is_answered_alike(
    api: Api, world: World, mailed: accounts.SignUp
) -> None:
    path = "/v1/verifications"
    failing = [
        api.call("POST", path, {"email": ADDRESS, "code": wrong(world)}),
        api.call("POST", path, {"email": ADDRESS, "code": "x"}),
        api.call("POST", path, {"email": "nobody@example.com", "code": "000000"}),
    ]
    assert {(a.status, a.problem) for a in failing} == {(400, "token-invalid")}
    assert len({a.text for a in failing}) == 1
    token = api.call("POST", path, {"token": "A" * 64})
    assert (token.status, token.problem) == (400, "token-invalid")
    right = api.call("POST", path, {"email": ADDRESS, "code": code_of(world)})
    assert (right.status, right.json["status"]) == (200, "verified")
    for body, pointer in [
        ({"email": ADDRESS}, "#/code"),
        ({"code": "000000"}, "#/email"),
        ({"token": "x", "code": "000000"}, "#/code"),
    ]:
        answer = api.call("POST", path, body)
        assert (answer.status, answer.json["errors"][0]["pointer"]) == (422, pointer)


def test_the_page_s_form_takes_a_code(api: Api, world: World, mailed: accounts.SignUp) -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    failing = api.call("POST", "/verify", f"email=ada%40example.com&code={wrong(world)}", **form)
    assert failing.status == 400
    right = api.call("POST", "/verify", f"email=ada%40example.com&code={code_of(world)}", **form)
    assert right.status == 200
    assert world.user(mailed.user_id)["verified_at"] is not None


def test_a_failed_try_costs_the_same_whatever_is_behind_the_address(
    world: World, database: Database, mailed: accounts.SignUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("late", "verified", "exhausted"):
        accounts.sign_up(database, email=f"{name}@example.com")
    world.dispatch()
    accounts.verify(database, token=world.tokens_of("verified@example.com")[0])
    world.owner.execute(
        "UPDATE postlease.email_messages SET dispatched_at = now() - interval '1 hour'"
        " WHERE to_addresses = ARRAY['late@example.com']"
    )
    world.owner.execute(
        "UPDATE postlease.verification_tokens AS t SET code_attempts = 5"
        " FROM postlease.users AS u WHERE u.id = t.user_id AND u.email = 'exhausted@example.com'"
    )
    from psycopg import Cursor  # noqa: PLC0415

    said: list[str] = []
    written: list[int] = []
    execute = Cursor.execute

    def told(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        done = execute(cursor, query, *arguments, **options)
        title = str(query).partition("\n")[0]
        said.append(title)
        if title in {"-- accounts.try_code", "-- limits.note", "-- limits.count"}:
            written.append(cursor.rowcount)
        return done

    heard = set()
    for name in ("ada", "unknown", "late", "verified", "exhausted"):
        code = "000000" if name == "unknown" else wrong(world, f"{name}@example.com")
        said.clear()
        written.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", told)
            refused(database, code, f"{name}@example.com")
        heard.add((tuple(said), sum(written)))
    assert len(heard) == 1
