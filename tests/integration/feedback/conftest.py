"""Events as SES would send them, and the room that takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from local.runtime import ACCOUNT
from local.sendemail import SendEmail
from local.ses_events import EventKind, ses_event
from postlease import config, feedback, suppression, tokens
from tests.deployed import PEPPER
from tests.integration.delivery.conftest import sweeps

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection, Database
    from postlease.feedback import Taken

__all__ = ["sweeps"]  # a fixture

SET = "postlease"
NOBODY = UUID("019ce1a7-f0d2-7c31-8f0a-2b6d9e5c4a11")


def told(
    kind: EventKind,
    *addresses: str,
    message_id: UUID = NOBODY,
    attempt: int = 1,
    provider_message_id: str = "from-the-event",
) -> dict[str, Any]:
    """An event about an accepted mail to addresses."""
    tags = {"postlease-id": str(message_id), "postlease-attempt": str(attempt)}
    body = {
        "ConfigurationSetName": SET,
        "EmailTags": [{"Name": name, "Value": value} for name, value in tags.items()],
    }
    to = addresses or ("reader0@example.com",)
    return ses_event(kind, SendEmail("no-reply@x.org", to, (), (), b"", body), provider_message_id)


class Feedback:
    """Takes events one by one in this process."""

    def __init__(self, database: Database, owner: Connection) -> None:
        self._database = database
        self._owner = owner

    def take(self, *events: dict[str, Any] | str) -> list[Taken]:
        """What each event did."""
        return [
            feedback.take(
                config.settings(),
                self._database,
                event if isinstance(event, str) else json.dumps(event),
                account=ACCOUNT,
            )
            for event in events
        ]

    def suppressed(self) -> list[tuple[str, str]]:
        """Each entry: eight characters of its digest, in hexadecimal, and its reason."""
        rows = self._owner.execute(
            "SELECT address_digest, reason FROM postlease.suppressions"
        ).fetchall()
        return [(row["address_digest"].hex()[:8], row["reason"]) for row in rows]

    def entries(self, address: str = "reader0@example.com") -> dict[str, dict[str, Any]]:
        """An address's entries in the list, by reason."""
        rows = self._owner.execute(
            "SELECT * FROM postlease.suppressions WHERE address_digest = %s", [key(address)]
        ).fetchall()
        by_reason = {row["reason"]: row for row in rows}
        assert len(by_reason) == len(rows)
        return by_reason

    def entry(self, address: str = "reader0@example.com") -> dict[str, Any] | None:
        """The only entry of an address in the list."""
        entries = self.entries(address)
        assert len(entries) <= 1
        return next(iter(entries.values()), None)

    def reason(self, address: str = "reader0@example.com") -> str | None:
        """Why an address is in the list, for one reason alone."""
        entry = self.entry(address)
        return entry["reason"] if entry else None

    def bounces(self) -> int:
        """How many soft bounces are counted."""
        row = self._owner.execute("SELECT count(*) AS n FROM postlease.bounces").fetchone()
        assert row
        return int(row["n"])


def key(address: str) -> bytes:
    """The digest that an address is listed under."""
    return suppression.digest(tokens.pepper(PEPPER), address)


@pytest.fixture
def told_us(environment: Callable[..., None], database: Database, owner: Connection) -> Feedback:
    """Empty tables, and a deployment with a configuration set."""
    environment(SES_CONFIGURATION_SET=SET)
    return Feedback(database, owner)
