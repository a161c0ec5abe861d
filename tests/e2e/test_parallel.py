"""Fifty equal requests at once, over real sockets and into several processes: one effect."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from local.stack import Stack
from tests.e2e.conftest import Answer, ask, signed
from tests.emptying import emptied
from tests.integration.auth.test_accounts import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postlease.database import Connection

SETTINGS = {
    "CLIENT_LIMIT_PER_MINUTE": "0",
    "CLIENT_LIMIT_PER_HOUR": "0",
    "SWEEP_LINGER_SECONDS": "0",
}
"""One client may ask as often as a test does: no refusal stands in for an answer."""
AT_ONCE = 50

EFFECTS = """
SELECT (SELECT count(*) FROM postlease.users) AS users,
       (SELECT count(*) FROM postlease.verification_tokens) AS tokens,
       (SELECT count(*) FROM postlease.email_messages) AS messages
"""


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    """The product, swept by hand alone."""
    with Stack(database_url=server_url, settings=SETTINGS) as stack:
        yield stack


@pytest.fixture
def rows(product: Stack) -> Iterator[Connection]:
    """The owner's connection to its database, which holds nothing; and an empty inbox."""
    with emptied(product) as owner:
        yield owner


def mailed_token(product: Stack) -> str:
    """The token of the one mail that a sweep sends."""
    product.provider.inbox.clear()
    assert product.invoke("sweep")["sent"] == 1
    [mail] = product.inbox()
    [token] = re.findall(r"#token=([\w-]{64})", mail["text"])
    return str(token)


@pytest.mark.parametrize(
    "key",
    [lambda n: None, lambda n: "same", lambda n: f"key-{n}"],
    ids=["no key", "one key", "different keys"],
)
def test_fifty_equal_sign_ups_at_once_are_one(
    product: Stack, rows: Connection, key: Callable[[int], str | None]
) -> None:
    """SGN-01, RSD-05, IDM-01: over HTTP, whatever the keys."""

    def sign_up(number: int) -> Answer:
        headers = {"idempotency_key": text} if (text := key(number)) else {}
        return ask(f"{product.url}/v1/signups", "POST", {"email": "ada@example.com"}, **headers)

    answers = together(AT_ONCE, sign_up)
    assert Counter(answer.status for answer in answers) == {202: AT_ONCE}
    assert len({answer.body for answer in answers}) == 1
    assert rows.execute(EFFECTS).fetchall() == [{"users": 1, "tokens": 1, "messages": 1}]
    replayed = sum("idempotent-replayed" in answer.headers for answer in answers)
    assert replayed == (AT_ONCE - 1 if key(0) == "same" else 0)


def test_fifty_redemptions_at_once_change_one_row_and_answer_as_they_must(
    product: Stack, rows: Connection
) -> None:
    """VER-11, RST-01: over HTTP; a link that verifies succeeds again, one that resets does not."""
    email = {"email": "ada@example.com"}
    user_id = ask(f"{product.url}/v1/signups", "POST", email).json["user_id"]
    token = {"token": mailed_token(product)}
    answers = together(AT_ONCE, lambda _: ask(f"{product.url}/v1/verifications", "POST", token))
    assert Counter(answer.status for answer in answers) == {200: AT_ONCE}
    assert len({answer.body for answer in answers}) == 1
    [proof] = rows.execute(
        "SELECT t.redeemed_at, u.verified_at FROM postlease.verification_tokens AS t"
        " JOIN postlease.users AS u ON u.id = t.user_id"
    ).fetchall()
    assert proof["verified_at"] == proof["redeemed_at"]
    assert answers[0].json["verified_at"] == proof["verified_at"].isoformat()

    assert ask(f"{product.url}/v1/password-resets", "POST", email).status == 202
    token = {"token": mailed_token(product)}
    target = "/v1/password-resets/redeem"
    answers = together(AT_ONCE, lambda _: signed(product, "POST", target, token))
    assert Counter(answer.status for answer in answers) == {200: 1, 410: AT_ONCE - 1}
    assert [answer.json for answer in answers if answer.status == 200] == [{"user_id": user_id}]
    refused = {answer.json["type"] for answer in answers if answer.status == 410}
    assert refused == {"urn:postlease:problem:token-used"}
