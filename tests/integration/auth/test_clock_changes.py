"""Durations are what they say on the two days of a year that have no 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from postlease import accounts, outbox
from postlease.database import Database
from postlease.errors import TokenError
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.auth.conftest import World

ADDRESS = "ada@example.com"
SECOND = timedelta(seconds=1)
CLOCK = """
CREATE SCHEMA stopped;
CREATE TABLE stopped.clock (at timestamptz);
INSERT INTO stopped.clock VALUES (now());
CREATE FUNCTION stopped.now() RETURNS timestamptz
    STABLE LANGUAGE sql AS 'SELECT at FROM stopped.clock';
GRANT USAGE ON SCHEMA stopped TO postlease_application;
GRANT SELECT ON stopped.clock TO postlease_application;
"""


class Clock:
    """What the application's statements find under the name of now()."""

    def __init__(self, world: World, conninfo: str) -> None:
        self._world = world
        # Names of pg_catalog are found last if the path says so.
        path = make_conninfo(conninfo, options="-c search_path=stopped,pg_catalog,pg_temp")
        self.database = Database(lambda *, refresh: path)

    def put(self, at: datetime) -> None:
        """Let it be that moment."""
        self._world.rows("UPDATE stopped.clock SET at = %s RETURNING at", at)

    def live_in(self, zone: str | None) -> None:
        """Let the database's sessions be in zone, unless their role says otherwise."""
        [row] = self._world.rows("SELECT current_database() AS name")
        change = sql.SQL("SET timezone = {}").format(zone) if zone else sql.SQL("RESET timezone")
        self._world.owner.execute(
            sql.SQL("ALTER DATABASE {} {}").format(sql.Identifier(row["name"]), change)
        )


@pytest.fixture
def clock(world: World, application_conninfo: str) -> Iterator[Clock]:
    """A clock that stands, in a schema that is gone afterwards."""
    world.owner.execute(CLOCK.encode())
    clock = Clock(world, application_conninfo)
    yield clock
    clock.database.discard()
    clock.live_in(None)
    world.owner.execute("DROP SCHEMA stopped CASCADE")


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", datetime(2037, 3, 29, 1, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2037, 10, 25, 1, tzinfo=UTC)),
        ("America/New_York", datetime(2037, 3, 8, 7, tzinfo=UTC)),
        ("America/New_York", datetime(2037, 11, 1, 6, tzinfo=UTC)),
    ],
    ids=lambda value: value.replace("/", " ") if isinstance(value, str) else f"{value:%B}",
)
def test_a_link_and_a_lease_last_as_long_when_the_clocks_change(
    world: World, clock: Clock, zone: str, change: datetime
) -> None:
    """SCH-05: asked for a second before the change, and over exactly when they should be."""
    clock.live_in(zone)
    asked = change - SECOND
    clock.put(asked)
    answer = accounts.sign_up(clock.database, email=ADDRESS)
    [token] = world.rows("SELECT expires_at FROM postlease.verification_tokens")
    assert token["expires_at"] == asked + timedelta(days=1)

    clock.put(asked + timedelta(hours=12))
    with clock.database.transaction() as connection:
        [message] = arrange.claim(connection)
    claimed: dict[str, Any] = arrange.row(world.owner, message.claim.message_id)
    assert claimed["claimed_at"] == asked + timedelta(hours=12)
    assert claimed["lease_expires_at"] == claimed["claimed_at"] + arrange.LEASE
    assert message.lease_expires_at == claimed["lease_expires_at"]
    with clock.database.transaction() as connection:
        clock.put(claimed["lease_expires_at"] - SECOND)
        assert outbox.reap_undispatched(connection, batch=10).total == 0
        clock.put(claimed["lease_expires_at"] + SECOND)
        assert outbox.reap_undispatched(connection, batch=10).returned == 1

    [text] = world.tokens_of(ADDRESS)
    clock.put(asked + timedelta(days=1))
    with pytest.raises(TokenError, match="token-expired"):
        accounts.verify(clock.database, token=text)
    clock.put(asked + timedelta(days=1) - SECOND)
    accounts.verify(clock.database, token=text)
    assert world.user(answer.user_id)["verified_at"] == asked + timedelta(days=1) - SECOND
