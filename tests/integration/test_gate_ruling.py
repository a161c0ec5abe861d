"""An operator's word on a gate: what ends a pause, and what does not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from postlease import gate
from postlease.model import Accepted, Blocked, Deferred, Outcome, Rejected, Throttled, Unreachable
from tests import arrange
from tests.integration.test_gate import MESSAGE, PAUSES, close, note, row

if TYPE_CHECKING:
    from postlease.database import Connection


def pause(connection: Connection, provider: str = "ses") -> None:
    gate.pause(connection, provider, by="123456789012:role/support", because="wrong template")


def release(connection: Connection, provider: str = "ses") -> None:
    gate.release(connection, provider, by="123456789012:role/lead", because="template is mended")


def state(connection: Connection, provider: str = "ses") -> gate.GateReport:
    [found] = [report for report in gate.read(connection) if report.provider == provider]
    return found


@pytest.mark.parametrize(
    "answer", [Accepted("p-1"), Rejected("content"), Deferred("busy"), Throttled("rate")]
)
def test_no_answer_opens_a_gate_that_an_operator_paused(
    owner: Connection, application: Connection, answer: Outcome
) -> None:
    pause(application)
    arrange.pass_time(owner, timedelta(minutes=1))
    note(application, answer)
    assert gate.open_gate(application, "ses") is False  # as SES's event would
    assert (gate.look(application, "ses").closed, state(application).state) == (True, "paused")


def test_no_probe_passes_a_gate_that_an_operator_paused(
    owner: Connection, application: Connection
) -> None:
    pause(application)
    for interval in PAUSES:
        arrange.pass_time(owner, timedelta(seconds=interval))
        assert gate.look(application, "ses").probe_is_due is False
        assert gate.take_probe(application, "ses") is None
    assert state(application).probe_at is None


@pytest.mark.parametrize("was_closed", [False, True])
def test_a_pause_outlasts_the_probe_that_was_under_way(
    owner: Connection, application: Connection, was_closed: bool
) -> None:
    if was_closed:
        close(application)
        arrange.pass_time(owner, timedelta(minutes=1))
        assert gate.take_probe(application, "ses") is not None
    pause(application)
    note(application, Accepted("p-1"), age=timedelta(seconds=2))
    assert close(application) is False
    note(application, Unreachable("dns"))
    found = state(application)
    assert (found.state, found.close_reason, found.closed_by) == ("paused", "operator", None)


def test_code_that_knows_no_pause_is_held_by_it_too(owner: Connection) -> None:
    pause(owner)
    with pytest.raises(psycopg.errors.CheckViolation):
        owner.execute(
            "UPDATE postlease.provider_gates SET closed_at = NULL, close_reason = NULL,"
            " probe_at = NULL"
        )
    assert state(owner).state == "paused"


def test_a_pause_closes_anew_what_was_closed(owner: Connection, application: Connection) -> None:
    """Code that knows no pause goes by that: the call of a probe began before it."""
    close(application)
    arrange.pass_time(owner, timedelta(minutes=1))
    before = row(owner)["closed_at"]
    pause(application)
    found = state(application).closed_at
    assert found is not None
    assert found - before > timedelta(minutes=1)


@pytest.mark.parametrize("closed", ["pause", "close", "nothing"])
def test_an_operator_opens_whatever_closed_the_gate(
    owner: Connection, application: Connection, closed: str
) -> None:
    for _ in range(4):
        note(application, Unreachable("dns"))
    if closed != "nothing":
        {"pause": pause, "close": close}[closed](application)
    release(application)
    assert gate.look(application, "ses") == gate.OPEN_GATE
    found = state(application)
    assert (found.state, found.close_reason, found.closed_at) == ("open", None, None)
    assert (found.ruled_by, found.ruled_because) == (
        "123456789012:role/lead",
        "template is mended",
    )
    close(application)
    assert row(owner)["probe_in"] == 30


def test_an_opening_forgets_how_long_probes_waited(
    owner: Connection, application: Connection
) -> None:
    close(application)
    for _ in range(3):
        arrange.pass_time(owner, timedelta(minutes=10))
        assert gate.take_probe(application, "ses")
    release(application)
    close(application)
    arrange.pass_time(owner, timedelta(seconds=30))
    assert gate.take_probe(application, "ses")
    assert row(owner)["probe_in"] == 60


def test_a_provider_that_still_refuses_closes_an_opened_gate_again(
    application: Connection,
) -> None:
    pause(application)
    release(application)
    note(application, Blocked("sending_paused"))
    found = state(application)
    assert (found.state, found.closed_by) == ("closed", MESSAGE)
    assert found.ruled_because == "template is mended"


def test_an_operator_s_word_is_about_one_provider(
    owner: Connection, application: Connection
) -> None:
    pause(application, "smtp")
    close(application, "resend")
    pause(application, "ses")
    release(application, "ses")
    assert state(application, "smtp").state == "paused"
    assert state(application, "resend").state == "closed"
