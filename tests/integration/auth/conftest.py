"""The auth function's world: what a test sees of its database, and how it is called."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql

from postlease import accounts, tokens
from postlease.database import Connection, Database
from postlease.model import Purpose, TokenFacts
from tests.deployed import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType
    from uuid import UUID

EVENTS = Path(__file__).parents[3] / "events"

TOKENS_OF = """
SELECT t.id, t.user_id, t.purpose, t.version, t.key_id, t.token_hash
FROM postlease.verification_tokens AS t JOIN postlease.users AS u ON u.id = t.user_id
WHERE u.email_canonical = %s AND t.purpose = %s ORDER BY t.version
"""


@dataclass
class World:
    """What a test looks at and does, beside calling the API."""

    owner: Connection
    ring: tokens.KeyRing

    def rows(self, query: str, *arguments: object) -> list[dict[str, Any]]:
        """The rows of a query by the owner."""
        return self.owner.execute(query.encode(), arguments).fetchall()

    def count(self, table: str) -> int:
        """How many rows a table of the schema has."""
        query = sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier("postlease", table))
        return int(self.owner.execute(query).fetchall()[0]["n"])

    def dump(self) -> str:
        """Every row of every table as text: what a stolen backup shows."""
        tables = self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'postlease'")
        return "\n".join(
            row["line"]
            for table in tables
            for row in self.owner.execute(
                sql.SQL("SELECT t::text AS line FROM {} AS t").format(
                    sql.Identifier("postlease", table["tablename"])
                )
            )
        )

    def wait_until_blocked(self) -> None:
        """Return as soon as a session of this database waits for a lock."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.rows(
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            ):
                return
        raise AssertionError("nobody waits for a lock")

    def tokens_of(self, address: str, purpose: Purpose = "verify_email") -> list[str]:
        """The text of each of a user's tokens, oldest first, as the mails carry it."""
        found = self.rows(TOKENS_OF, address, purpose)
        return [tokens.derive_again(self.ring, TokenFacts(**row)) for row in found]

    def end_cooldowns(self) -> None:
        """Let the cooldown pass: its window is moved into the past."""
        self.owner.execute(
            "UPDATE postlease.rate_limits SET window_started_at = now() - interval '2 hours',"
            " window_ends_at = now() - interval '1 hour'"
        )

    def end_cooldowns_of_mail(self) -> None:
        """The same, but for what counts tries of codes."""
        self.owner.execute(
            "UPDATE postlease.rate_limits SET window_started_at = now() - interval '2 hours',"
            " window_ends_at = now() - interval '1 hour' WHERE message_id IS NOT NULL"
        )

    def dispatch(self, *, seconds_ago: int = 0) -> None:
        """Let all mail that has not failed have left so long ago."""
        self.owner.execute(
            "UPDATE postlease.email_messages SET status = 'sent', provider = 'ses',"
            " provider_message_id = 'p', sent_at = now(), finished_at = now(),"
            " dispatched_at = now() - make_interval(secs => %s) WHERE failure_reason IS NULL",
            [seconds_ago],
        )

    def user(self, user_id: UUID) -> dict[str, Any]:
        """One user's row."""
        return self.rows("SELECT * FROM postlease.users WHERE id = %s", user_id)[0]


@pytest.fixture
def world(environment: Callable[..., None], owner: Connection) -> World:
    """Empty tables, and the function's environment; one client may ask as often as a test does."""
    environment(CLIENT_LIMIT_PER_MINUTE="0", CLIENT_LIMIT_PER_HOUR="0")
    return World(owner, tokens.KeyRing.from_secret(KEYS))


@pytest.fixture
def open_database(world: World, application_conninfo: str) -> Iterator[Callable[[], Database]]:
    """Opens databases as a function's environment has one: one for each process that we play."""
    opened: list[Database] = []

    def open_one() -> Database:
        opened.append(Database(lambda *, refresh: application_conninfo))
        opened[-1].connection()
        return opened[-1]

    yield open_one
    for kept in opened:
        kept.discard()


@pytest.fixture
def signed_up(world: World, database: Database) -> Callable[[str], accounts.SignUp]:
    """Signs an address up."""
    return lambda email: accounts.sign_up(database, email=email)


@pytest.fixture
def codes(world: World, environment: Callable[..., None]) -> None:
    """Codes are on."""
    environment(VERIFY_CODES="on")


@pytest.fixture
def mailed(
    world: World, database: Database, signed_up: Callable[[str], accounts.SignUp], codes: None
) -> accounts.SignUp:
    """Somebody has signed up, and the mail with the code has left."""
    answer = signed_up("ada@example.com")
    world.dispatch()
    return answer


@pytest.fixture
def reset(
    world: World, database: Database, signed_up: Callable[[str], accounts.SignUp]
) -> Callable[[], tuple[UUID, str]]:
    """Signs up, asks for a reset, and answers whose it is and the newest token's text."""

    def ask() -> tuple[UUID, str]:
        user_id = signed_up("ada@example.com").user_id
        accounts.request_reset(database, email="ada@example.com")
        return user_id, world.tokens_of("ada@example.com", "reset_password")[-1]

    return ask


@dataclass(frozen=True)
class Reply:
    """One answer of the function."""

    status: int
    headers: dict[str, str]
    text: str = field(repr=False)

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.text)

    @property
    def problem(self) -> str:
        """The slug of the problem that this answer is."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["type"]).removeprefix("urn:postlease:problem:")


class Api:
    """Calls the function's handler with the events that the gateway would send."""

    def __init__(self, app: ModuleType) -> None:
        self._app = app
        self._event = json.loads((EVENTS / "auth-signup.json").read_text())

    def sample(self) -> dict[str, Any]:
        """The event of a sign-up."""
        return dict(self._event)

    def event(self, event: Mapping[str, Any]) -> Reply:
        """The answer to a whole event."""
        answer = self._app.handler(event, None)
        return Reply(answer["statusCode"], answer["headers"], answer["body"])

    def call(
        self, method: str, path: str, body: object = None, /, client: str = "", **headers: str
    ) -> Reply:
        """The answer to one request; a body that is no text is sent as JSON."""
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        sent = {"content-type": "application/json"} if text is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        context = self._event["requestContext"]
        context = {**context, "http": {**context["http"], "method": method, "path": path}}
        if client:
            context["http"]["sourceIp"] = client
        event = {**self._event, "rawPath": path, "headers": sent, "requestContext": context}
        event["body"] = text
        return self.event(event)


@pytest.fixture
def api(world: World) -> Api:
    """The auth function, started in its environment."""
    from functions.auth import app  # noqa: PLC0415  its import reads the environment

    return Api(app)
