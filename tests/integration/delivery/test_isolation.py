"""One message's trouble never touches another's."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from postlease.delivery import preparing
from postlease.errors import PostleaseError
from tests import arrange

if TYPE_CHECKING:
    from postlease.database import Connection
    from postlease.delivery.preparing import PreparedMail, Preparer
    from postlease.model import ClaimedMessage, Outcome, OutgoingMail
    from postlease.providers.ses import SesProvider
    from tests.integration.delivery.conftest import Sweeps

EXCEPTIONS = [
    ValueError("reader@example.com"),
    TypeError(),
    KeyError("name"),
    AttributeError(),
    IndexError(),
    UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogate"),
    RecursionError(),
    MemoryError(),
    OSError(),
    RuntimeError(),
    ZeroDivisionError(),
    PostleaseError("unforeseen"),
]
POISON = "reader2@example.com"


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__name__)
def test_an_unexpected_exception_defers_its_message_alone(
    sweeps: Sweeps, owner: Connection, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """PSN-02: the type is noted, the batch goes on."""
    prepare = preparing.Preparer.prepare

    def fail_for_one(self: Preparer, message: ClaimedMessage) -> PreparedMail:
        if message.to_addresses == (POISON,):
            raise error
        return prepare(self, message)

    monkeypatch.setattr(preparing.Preparer, "prepare", fail_for_one)
    ids = arrange.enqueue(owner, 5)
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["unexpected"]) == (4, 1)
    stored = arrange.row(owner, ids[2])
    assert (stored["status"], stored["refunded_count"]) == ("pending", 0)
    assert stored["attempts"][-1]["code"] == f"unexpected_{type(error).__name__}"
    assert "reader2" not in str(stored["attempts"])


def test_an_exception_out_of_the_adapter_is_an_unknown_outcome(
    sweeps: Sweeps, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say whether the call had left, so it is not simply tried again."""
    from postlease.providers.ses import SesProvider  # noqa: PLC0415

    send = SesProvider.send

    def fail_for_one(self: SesProvider, mail: OutgoingMail) -> Outcome:
        if mail.envelope.to == (POISON,):
            raise RuntimeError
        return send(self, mail)

    monkeypatch.setattr(SesProvider, "send", fail_for_one)
    ids = arrange.enqueue(owner, 5)
    tally = sweeps.run()
    assert (tally.counts["sent"], tally.counts["unknown"]) == (4, 1)
    assert arrange.row(owner, ids[2])["status"] == "sending"


def test_a_message_that_cost_a_worker_is_sent_with_nothing_else_in_flight(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    ids = arrange.enqueue(owner, 6)
    lost = arrange.claim(application, 2)
    for message in lost:
        arrange.end_lease(owner, message.claim.message_id)
    arrange.reap(application)
    sweeps.meets("slow", seconds=0.2)
    assert sweeps.run().counts["sent"] == 6
    flights = []
    for message_id in ids:
        last = arrange.row(owner, message_id)["attempts"][-1]
        flights.append(
            (
                datetime.fromisoformat(last["claimed_at"]),
                datetime.fromisoformat(last["ended_at"]),
                message_id in {message.claim.message_id for message in lost},
            )
        )
    flights.sort()
    for earlier, later in pairwise(flights):
        if earlier[2] or later[2]:
            assert earlier[1] <= later[0] + timedelta(milliseconds=1)


def test_a_prepared_mail_without_suppressions_is_the_mail_itself(
    sweeps: Sweeps, owner: Connection, application: Connection
) -> None:
    from postlease import config, rendering  # noqa: PLC0415

    arrange.enqueue(owner)
    [message] = arrange.claim(application)
    prepared = preparing.Preparer(config.settings(), rendering.templates()).prepare(message)
    assert prepared.without(frozenset()) is prepared.mail
    [digest] = prepared.digests.values()
    assert prepared.without({digest}) == dataclasses.replace(
        prepared.mail, envelope=dataclasses.replace(prepared.mail.envelope, to=())
    )
