"""What a call is made on: a verdict that is fresh when the call begins, whatever it waited for."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from postlease import config, outbox, rendering
from postlease.delivery import sending
from postlease.delivery.calls import Calls
from postlease.delivery.connections import Connections
from postlease.delivery.deadline import Deadline
from postlease.delivery.gatekeeping import Gatekeeper
from postlease.delivery.preparing import PreparedMail, Preparer
from postlease.delivery.sending import Sender
from postlease.delivery.tally import Tally
from postlease.delivery.turns import Turn
from postlease.delivery.writer import Writer
from postlease.model import Accepted, OutgoingMail
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection
    from postlease.model import ClaimedMessage, Outcome

SLOTS = 5


class Provider:
    """Accepts whatever comes."""

    name = "ses"
    keeps_keys = False

    def __init__(self) -> None:
        self.mails: list[OutgoingMail] = []

    def get_ready(self) -> None:
        """It always is."""

    def sending_rate(self) -> None:
        """None that it tells."""

    def send(self, mail: OutgoingMail) -> Outcome:
        self.mails.append(mail)
        return Accepted("accepted")


class LongTurn(Gatekeeper):
    """Whose turns come after more than a verdict's time, in which something happens."""

    meanwhile: Callable[[Gatekeeper], object]

    def take_turn(self, message: ClaimedMessage, turn: Turn, *, latest: float) -> bool:
        del message, turn, latest
        self.meanwhile()
        threading.Event().wait(sending._VERDICT_SECONDS * 1.5)
        return True


def send(application: Connection, meanwhile: Callable[..., object]) -> tuple[Provider, Tally]:
    """One message through all of a sender; nothing is owed to the writer at the end."""
    provider, tally, calls = Provider(), Tally(), Calls(SLOTS)
    terms = outbox.Terms(
        provider.name, keeps_keys=False, needed=arrange.NEEDED, max_attempts=arrange.MAX_ATTEMPTS
    )
    with Writer(Connections.kept(), terms, calls) as writer:
        gatekeeper = LongTurn(writer, provider=provider, tally=tally, own_limit=None)
        gatekeeper.meanwhile = lambda: meanwhile(gatekeeper)
        sender = Sender(
            preparer=Preparer(config.settings(), rendering.templates()),
            writer=writer,
            provider=provider,
            gatekeeper=gatekeeper,
            tally=tally,
            needed=arrange.NEEDED,
        )
        [message] = arrange.claim(application)
        now = time.monotonic()
        sender.send(message, Deadline(now + 45, now + 60), Turn(now, now))
    assert calls._through == 0
    return provider, tally


@pytest.fixture(autouse=True)
def _verdicts_age_soon(environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_VERDICT_SECONDS", 0.3)


def test_what_was_over_before_its_turn_came_is_not_sent(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)

    def expire(_: Gatekeeper) -> None:
        owner.execute("UPDATE postlease.email_messages SET expires_at = now()")

    provider, _ = send(application, expire)
    assert provider.mails == []
    assert arrange.row(owner, message_id)["failure_reason"] == "expired"


def test_what_nothing_happened_to_leaves_after_its_second_verdict(
    owner: Connection, application: Connection
) -> None:
    [message_id] = arrange.enqueue(owner)
    provider, _ = send(application, lambda _: None)
    assert len(provider.mails) == 1
    assert arrange.row(owner, message_id)["status"] == "sent"


def test_a_mail_that_cannot_be_made_of_its_verdict_leaves_no_call_taken(
    owner: Connection, application: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange.enqueue(owner)

    def without(*_: object) -> OutgoingMail:
        raise MemoryError

    monkeypatch.setattr(PreparedMail, "without", without)
    provider, tally = send(application, lambda _: None)
    assert (provider.mails, tally.counts["unexpected"]) == ([], 1)
