"""Who speaks in the story, and what several of its parts do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from postlease import outbox
from tests import arrange

if TYPE_CHECKING:
    import psycopg

    from postlease.database import Connection, Database
    from postlease.model import ClaimedMessage

MOMENT = timedelta(microseconds=1)
AGO = timedelta(days=-1)
FAR = datetime(2999, 1, 1, tzinfo=UTC)
DIGEST = b"d" * 32


@dataclass(frozen=True, slots=True)
class Actors:
    """Who speaks: the functions' role, a member of the producers' role, the migrating role.

    The tables are empty, and the environment is a deployment's, with codes on.
    """

    application: Database
    producer: psycopg.Connection[Any]
    owner: Connection

    @property
    def connection(self) -> Connection:
        """The functions' connection, for what commits by itself."""
        return self.application.connection()


def send(actors: Actors, claimed: list[ClaimedMessage]) -> None:
    """Authorize what was claimed, and record that it was accepted."""
    listed = outbox.Addressee(DIGEST, is_to=True)
    arrange.authorize(
        actors.connection, *(message.claim for message in claimed), addressees=(listed,)
    )
    outbox.record(
        actors.connection,
        [arrange.sent(m.claim, f"p-{place}") for place, m in enumerate(claimed)],
    )
