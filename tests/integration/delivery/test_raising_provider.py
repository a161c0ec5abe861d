"""An adapter that raises what it should have classified."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from postlease import config, outbox, rendering
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.deadline import Deadline
from postlease.delivery.gatekeeping import Gatekeeper
from postlease.delivery.preparing import Preparer
from postlease.delivery.sending import Sender
from postlease.delivery.tally import Tally
from postlease.delivery.turns import Turn
from postlease.delivery.writer import Writer
from postlease.model import Accepted, Outcome, OutgoingMail
from tests import arrange
from tests.integration.delivery.test_isolation import EXCEPTIONS, POISON

if TYPE_CHECKING:
    from postlease.database import Connection


@dataclass
class RaisingProvider:
    """Implements the port, and raises for one address."""

    error: Exception
    name: str = "raising"
    keeps_keys: bool = False

    def get_ready(self) -> None:
        """It always is."""

    def sending_rate(self) -> None:
        """None that it tells."""

    def send(self, mail: OutgoingMail) -> Outcome:
        if mail.envelope.to == (POISON,):
            raise self.error
        return Accepted(f"accepted-{mail.message_id}")


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
@pytest.mark.usefixtures("environment")
def test_an_exception_out_of_the_call_is_unknown_and_no_other_message_s_trouble(
    owner: Connection, application: Connection, error: Exception
) -> None:
    """PSN-02: the call may have left, so it is neither repeated at once nor called a failure."""
    ids = arrange.enqueue(owner, 5)
    provider, tally = RaisingProvider(error), Tally()
    terms = outbox.Terms(
        provider.name, keeps_keys=False, needed=arrange.NEEDED, max_attempts=arrange.MAX_ATTEMPTS
    )
    with Writer(Connections.kept(), terms, Calls(5)) as writer:
        sender = Sender(
            preparer=Preparer(config.settings(), rendering.templates()),
            writer=writer,
            provider=provider,
            gatekeeper=Gatekeeper(writer, provider=provider, tally=tally, own_limit=None),
            tally=tally,
            needed=arrange.NEEDED,
        )
        for message in arrange.claim(application, 5):
            now = time.monotonic()
            sender.send(message, Deadline(now + 45, now + 60), Turn(now, now))
    stored = [arrange.row(owner, message_id) for message_id in ids]
    assert [one["status"] for one in stored] == ["sent", "sent", "sending", "sent", "sent"]
    assert stored[2]["dispatched_at"] is not None
    assert (tally.counts["sent"], tally.counts["unknown"]) == (4, 1)
    assert arrange.claim(application, 5) == []
    arrange.end_lease(owner, ids[2], ago=arrange.GRACE + timedelta(seconds=1))
    assert arrange.reap(application)["unknown"].returned == 1
