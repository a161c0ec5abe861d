"""Over HTTP nothing tells which addresses of a mailbox have an account: no status, header, body."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import psycopg
import pytest
from psycopg.rows import dict_row

from local.stack import Stack
from tests.e2e.conftest import Answer, ask
from tests.emptying import CLEAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection

SETTINGS = {
    "CLIENT_LIMIT_PER_MINUTE": "0",
    "CLIENT_LIMIT_PER_HOUR": "0",
    "SWEEP_LINGER_SECONDS": "0",
    "VERIFY_CODES": "on",
}
ADA, OTHER = "ada@example.com", "ada+x@example.com"
ROUTES = {
    "sign-up": "/v1/signups",
    "again": "/v1/verifications/resend",
    "reset": "/v1/password-resets",
    "code": "/v1/verifications",
}

# What is asked, of whom, and with which code or key; or what happens meanwhile.
STEPS: tuple[tuple[str, ...], ...] = (
    ("sign-up", OTHER, "key"),
    ("reset", ADA),
    ("reset", OTHER),
    ("minute",),
    ("again", ADA),
    ("again", OTHER),
    ("sign-up", OTHER, "key"),
    ("sign-up", OTHER, "another"),
    ("code", ADA, "123456"),
    ("code", OTHER, "123456"),
    ("minute",),
    ("again", "Ada@EXAMPLE.com"),
    ("again", OTHER),
    ("sweep",),
    ("again", ADA),
    ("again", OTHER),
    ("sign-up", OTHER),
    ("minute",),
    ("reset", ADA),
    ("again", OTHER),
    ("sign-up", ADA, "key"),
    ("sign-up", ADA, "key"),
)

Shown: TypeAlias = tuple[str, int, list[tuple[str, str]], str]


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    """The product, swept by hand alone."""
    with Stack(database_url=server_url, settings=SETTINGS) as stack:
        yield stack


@pytest.fixture
def rows(product: Stack) -> Iterator[Connection]:
    """The owner's connection to its database."""
    with psycopg.connect(product.database_url, autocommit=True, row_factory=dict_row) as owner:
        yield owner


def begin(product: Stack, rows: Connection, name: str) -> None:
    """Nothing is known but the mailbox's own address, if that is."""
    rows.execute(CLEAN)
    if name != "unknown":
        assert ask(f"{product.url}/v1/signups", "POST", {"email": ADA}).status == 202
        rows.execute("TRUNCATE postlease.rate_limits")
    if name == "verified":
        rows.execute("UPDATE postlease.users SET verified_at = now()")
        rows.execute("UPDATE postlease.verification_tokens SET redeemed_at = now()")
        product.invoke("sweep")


class Stranger:
    """Takes steps, and keeps all that shows, with each id as the number of its first sight."""

    def __init__(self, product: Stack, rows: Connection) -> None:
        self.shown: list[Shown] = []
        self._product, self._rows = product, rows
        self._ids: list[str] = []

    def take(self, verb: str, address: str = "", extra: str = "") -> None:
        """One step, and a look at every event that is known by then."""
        if verb == "sweep":
            self._product.invoke("sweep")
        elif verb == "minute":
            self._rows.execute(
                "UPDATE postlease.rate_limits SET"
                " window_started_at = window_started_at - interval '61 seconds',"
                " window_ends_at = window_ends_at - interval '61 seconds'"
            )
        else:
            body = {"email": address} | ({"code": extra} if verb == "code" else {})
            key = {"idempotency_key": extra} if verb == "sign-up" and extra else {}
            self._keep(verb, ask(f"{self._product.url}{ROUTES[verb]}", "POST", body, **key))
        for event in [name for name in self._ids if name.startswith("evt_")]:
            self._keep("event", ask(f"{self._product.url}/v1/events/{event}"))

    def _keep(self, verb: str, answer: Answer) -> None:
        headers = sorted(
            (name, "" if name in {"date", "apigw-requestid"} else value)
            for name, value in answer.headers.items()
        )
        text = re.sub(
            r"evt_\w{26}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-\w{12}", self._number, answer.body.decode()
        )
        self.shown.append(
            (verb, answer.status, headers, re.sub(r"\d{4}-\d\d-\d\dT[^\"]+", "", text))
        )

    def _number(self, match: re.Match[str]) -> str:
        if match[0] not in self._ids:
            self._ids.append(match[0])
        return str(self._ids.index(match[0]))


def test_all_that_shows_is_the_same_whether_the_mailbox_has_an_account_or_not(
    product: Stack, rows: Connection
) -> None:
    seen: dict[str, list[Shown]] = {}
    for name in ("unknown", "waiting", "verified"):
        begin(product, rows, name)
        stranger = Stranger(product, rows)
        for step in STEPS:
            stranger.take(*step)
        seen[name] = stranger.shown
    assert {status for _, status, _, _ in seen["unknown"]} == {200, 202, 400}
    assert seen["waiting"] == seen["unknown"]
    assert seen["verified"] == seen["unknown"]
