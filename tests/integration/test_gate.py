"""The gate's statements: who passes, who probes, and how fast; over several connections."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from postlease import gate
from postlease.gate import closing, pacing
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Throttled,
    Unknown,
    Unreachable,
)
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection

MESSAGE = UUID(int=1)
OTHER = UUID(int=2)
SOON = timedelta(seconds=20)
SECOND = timedelta(seconds=1)
PAUSES = [30, 60, 120, 240, 480, 600, 600]


def row(owner: Connection, provider: str = "ses") -> dict[str, Any]:
    """The whole row of a gate."""
    found = owner.execute(
        "SELECT *, round(extract(epoch FROM probe_at - now()))::int AS probe_in"
        " FROM postlease.provider_gates WHERE provider = %s",
        [provider],
    ).fetchone()
    assert found, "there is no such gate"
    return found


def close(connection: Connection, provider: str = "ses") -> bool:
    return bool(gate.close_gate(connection, provider, reason="paused", message_id=MESSAGE))


def note(
    connection: Connection,
    outcome: Outcome,
    message_id: UUID = MESSAGE,
    *,
    age: timedelta = timedelta(0),
) -> bool:
    return bool(gate.note(connection, "ses", message_id, outcome, age=age))


def reserve(connection: Connection, recipients: int = 1) -> gate.Slots:
    slots = gate.reserve(connection, "ses", recipients=recipients, within=SOON)
    assert slots is not None
    return slots


def test_a_gate_that_nobody_closed_is_open(application: Connection) -> None:
    assert gate.look(application, "ses") == gate.OPEN_GATE
    assert gate.take_probe(application, "ses") is None


def test_a_blocked_answer_closes_the_gate_for_everyone_at_once(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    assert note(open_application(), Blocked("sending_paused")) is True
    state = gate.look(open_application(), "ses")
    assert (state.closed, state.reason, state.closed_by) == (True, "sending_paused", MESSAGE)
    assert state.probe_is_due is False
    assert row(owner)["probe_in"] == 30


def test_only_the_first_of_several_closes_the_gate(
    owner: Connection, application: Connection
) -> None:
    note(application, Blocked("sending_paused"))
    arrange.pass_time(owner, timedelta(seconds=10))
    assert note(application, Blocked("daily_quota"), OTHER) is False
    stored = row(owner)
    assert (stored["closed_by"], stored["close_reason"]) == (MESSAGE, "sending_paused")
    assert stored["probe_in"] == 20


def test_one_provider_s_gate_is_not_another_s(owner: Connection, application: Connection) -> None:
    """Each statement names its provider."""
    gate.set_limit(application, "smtp", 10)
    close(application, "smtp")
    close(application, "ses")
    gate.set_limit(application, "ses", 10)
    arrange.pass_time(owner, timedelta(minutes=2))
    before = row(owner, "smtp")
    for _ in range(closing.FAILURES_LIMIT):
        note(application, Unreachable("dns"))
    assert gate.take_probe(application, "ses") is not None
    assert gate.look(application, "ses").probe_is_due is False
    note(application, Throttled("rate"))
    note(application, Unreachable("dns"))
    reserve(application)
    gate.set_limit(application, "ses", 5)
    assert row(owner, "smtp") == before
    assert gate.look(application, "smtp").probe_is_due is True


def test_five_calls_in_a_row_that_reach_nobody_close_the_gate_over_all_workers(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    workers = [open_application(), open_application()]
    closed = [note(workers[place % 2], Unreachable("dns")) for place in range(6)]
    assert closed == [False, False, False, False, True, False]
    state = gate.look(workers[0], "ses")
    assert (state.closed, state.reason, state.closed_by) == (True, "unreachable", None)
    assert row(owner)["probe_in"] == 30


@pytest.mark.parametrize(
    "answer", [Accepted("p-1"), Rejected("content"), Deferred("busy"), Throttled("rate")]
)
def test_one_answer_in_between_begins_the_count_anew(
    open_application: Callable[[], Connection], answer: Outcome
) -> None:
    one, other = open_application(), open_application()
    for _ in range(4):
        note(one, Unreachable("dns"))
    note(other, answer)
    assert [note(one, Unreachable("dns")) for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize(
    "answer", [Accepted("p-1"), Rejected("content"), Deferred("busy"), Throttled("rate")]
)
def test_any_answer_opens_the_gate_and_forgets_the_pause(
    owner: Connection, application: Connection, answer: Outcome
) -> None:
    close(application)
    for _ in range(3):
        arrange.pass_time(owner, timedelta(minutes=10))
        assert gate.take_probe(application, "ses")
    note(application, answer)
    assert gate.look(application, "ses").closed is False
    assert close(application) is True
    arrange.pass_time(owner, timedelta(seconds=30))
    assert gate.take_probe(application, "ses") is not None
    assert row(owner)["probe_in"] == 60


@pytest.mark.parametrize("outcome", [Unknown("timeout"), Unreachable("dns"), Blocked("paused")])
def test_no_answer_and_a_blocked_one_open_nothing(
    application: Connection, outcome: Outcome
) -> None:
    close(application)
    note(application, outcome)
    assert gate.look(application, "ses").closed is True


def written(owner: Connection) -> Any:
    """What changes whenever a gate is written."""
    return owner.execute("SELECT xmin, ctid FROM postlease.provider_gates").fetchone()


@pytest.mark.parametrize("answer", [Rejected("content"), Deferred("busy")])
def test_an_answer_in_good_times_writes_nothing(
    owner: Connection, application: Connection, answer: Outcome
) -> None:
    gate.set_limit(application, "ses", 14)
    before = written(owner)
    note(application, answer)
    assert written(owner) == before


def test_an_acceptance_in_good_times_is_noted_every_ten_seconds(
    owner: Connection, application: Connection
) -> None:
    gate.set_limit(application, "ses", 14)
    note(application, Accepted("p-1"), age=2 * SECOND)
    first = row(owner)["accepted_at"]
    assert first == row(owner)["updated_at"] - 2 * SECOND
    note(application, Accepted("p-1"))
    assert row(owner)["accepted_at"] == first
    arrange.pass_time(owner, 10 * SECOND)
    note(application, Accepted("p-1"))
    assert row(owner)["accepted_at"] > first


@pytest.mark.parametrize(
    "answer", [Accepted("p-1"), Rejected("content"), Deferred("busy"), Throttled("rate")]
)
def test_an_answer_to_a_call_from_before_the_closing_opens_nothing(
    owner: Connection, application: Connection, answer: Outcome
) -> None:
    """What was on its way then was accepted by an account that has been paused since."""
    close(application)
    arrange.pass_time(owner, 5 * SECOND)
    before = row(owner)
    note(application, answer, age=6 * SECOND)
    assert row(owner)["closed_at"] == before["closed_at"]
    assert row(owner)["accepted_at"] is None
    note(application, answer, age=4 * SECOND)
    assert gate.look(application, "ses").closed is False


@pytest.mark.parametrize("answer", [Rejected("content"), Deferred("busy"), Throttled("rate")])
def test_a_throttled_or_refused_probe_is_no_acceptance(
    owner: Connection, application: Connection, answer: Outcome
) -> None:
    """It opens the gate, but does not show that the account may send."""
    close(application)
    note(application, answer)
    assert (row(owner)["closed_at"], row(owner)["accepted_at"]) == (None, None)


def test_a_refusal_without_a_call_opens_nothing(application: Connection) -> None:
    close(application)
    note(application, Rejected("too_large", is_answer=False))
    assert gate.look(application, "ses").closed is True


def blocked_at(
    owner: Connection, message_id: UUID, ago: timedelta, *, by: str = "ses identity"
) -> None:
    """Let a message have closed the gate so long ago, by that answer of that provider."""
    owner.execute(
        "UPDATE postlease.email_messages SET blocked_at = now() - %s, blocked_as = %s"
        " WHERE id = %s",
        [ago, by, message_id],
    )


@pytest.mark.parametrize(("accepted_ago", "others_pass"), [(None, False), (12, False), (8, True)])
def test_a_closing_says_whether_others_passed_since_its_message_s_last_one(
    owner: Connection, application: Connection, accepted_ago: int | None, *, others_pass: bool
) -> None:
    culprit, other = arrange.enqueue(owner, 2)
    gate.set_limit(application, "ses", 14)
    blocked_at(owner, culprit, 10 * SECOND)
    blocked_at(owner, other, 15 * SECOND)
    if accepted_ago:
        note(application, Accepted("p-1"), other, age=accepted_ago * SECOND)
    found = gate.note(application, "ses", culprit, Blocked("identity"), age=timedelta(0))
    assert found == gate.Closing(others_pass=others_pass)


@pytest.mark.parametrize("by", ["smtp identity", "ses sending_paused"])
def test_another_provider_s_answer_or_another_answer_is_another_trouble(
    owner: Connection, application: Connection, by: str
) -> None:
    [culprit] = arrange.enqueue(owner)
    gate.set_limit(application, "ses", 14)
    blocked_at(owner, culprit, 10 * SECOND, by=by)
    note(application, Accepted("p-1"))
    found = gate.note(application, "ses", culprit, Blocked("identity"), age=timedelta(0))
    assert found == gate.Closing(others_pass=False)


def test_an_older_acceptance_that_is_told_later_takes_nothing_back(
    owner: Connection, application: Connection
) -> None:
    gate.set_limit(application, "ses", 14)
    note(application, Accepted("p-1"))
    first = row(owner)["accepted_at"]
    note(application, Unreachable("dns"))
    note(application, Accepted("p-2"), age=11 * SECOND)
    assert (row(owner)["accepted_at"], row(owner)["failures_in_a_row"]) == (first, 0)


def test_a_message_s_first_closing_is_not_its_own_trouble(
    owner: Connection, application: Connection
) -> None:
    [culprit] = arrange.enqueue(owner)
    gate.set_limit(application, "ses", 14)
    note(application, Accepted("p-1"))
    found = gate.note(application, "ses", culprit, Blocked("identity"), age=timedelta(0))
    assert found == gate.Closing(others_pass=False)


def test_probes_go_one_an_interval_and_intervals_double_to_ten_minutes(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """A prober that dies costs one interval: the next one is due without it."""
    workers = [open_application(), open_application()]
    close(workers[0])
    for place, pause in enumerate(PAUSES):
        assert row(owner)["probe_in"] == pause
        arrange.pass_time(owner, timedelta(seconds=pause - 1))
        assert not gate.look(workers[0], "ses").probe_is_due
        assert gate.take_probe(workers[0], "ses") is None
        arrange.pass_time(owner, timedelta(seconds=1))
        assert gate.look(workers[1], "ses").probe_is_due
        assert gate.take_probe(workers[place % 2], "ses") == gate.Probe(MESSAGE)
        assert gate.take_probe(workers[1 - place % 2], "ses") is None


def test_of_many_that_reach_for_the_probe_at_once_one_gets_it(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    workers = [open_application() for _ in range(6)]
    close(workers[0])
    arrange.pass_time(owner, timedelta(seconds=30))
    with ThreadPoolExecutor(len(workers)) as threads:
        taken = list(threads.map(lambda worker: gate.take_probe(worker, "ses"), workers))
    assert sum(probe is not None for probe in taken) == 1


def test_an_open_gate_has_no_probe_to_take(owner: Connection, application: Connection) -> None:
    close(application)
    arrange.pass_time(owner, timedelta(seconds=30))
    gate.open_gate(application, "ses")
    assert gate.take_probe(application, "ses") is None


# The rate.


def test_without_a_known_rate_nothing_is_paced(application: Connection) -> None:
    assert gate.reserve(application, "ses", recipients=1, within=SOON) is None
    close(application)
    assert gate.reserve(application, "ses", recipients=1, within=SOON) is None
    note(application, Throttled("rate"))
    assert gate.look(application, "ses").rate_per_second is None


def test_slots_follow_one_another_by_recipients_over_two_workers(
    open_application: Callable[[], Connection],
) -> None:
    one, other = open_application(), open_application()
    gate.set_limit(one, "ses", 10)
    first = reserve(one, 5)
    assert (first.taken, first.wait) == (True, 0)
    assert first.spacing == pytest.approx(1 / (10 * pacing.SHARE))
    second = reserve(other, 20)
    third = reserve(one, 1)
    assert second.wait == pytest.approx(5 * first.spacing, abs=0.2)
    assert third.wait - second.wait == pytest.approx(20 * first.spacing, abs=0.2)


def test_what_lies_too_far_ahead_is_not_reserved(
    owner: Connection, application: Connection
) -> None:
    gate.set_limit(application, "ses", 1)
    reserve(application, 50)
    before = row(owner)["next_slot_at"]
    assert reserve(application, 50).taken is False
    assert row(owner)["next_slot_at"] == before


@pytest.mark.parametrize("rate", [5, 14, 100])
def test_a_silence_is_followed_by_a_tenth_of_a_second_s_rate_at_most(
    owner: Connection, application: Connection, rate: float
) -> None:
    """And by one call at least."""
    gate.set_limit(application, "ses", rate)
    arrange.pass_time(owner, timedelta(hours=1))
    slots = reserve(application, 200)
    stored = row(owner)
    ends_at = (stored["next_slot_at"] - stored["updated_at"]).total_seconds()
    due = sum(ends_at - place * slots.spacing <= 1e-5 for place in range(1, 201))
    assert slots.wait == 0
    assert 1 <= due <= max(rate / 10, 1)


def test_a_rate_that_was_too_high_is_halved_once_for_a_burst_and_comes_back(
    owner: Connection, application: Connection
) -> None:
    gate.set_limit(application, "ses", 16)
    arrange.pass_time(owner, pacing.BURST)
    for number in range(10):
        note(application, Throttled("rate"), UUID(int=number))
    assert gate.look(application, "ses").rate_per_second == 8
    reserve(application)
    assert gate.look(application, "ses").rate_per_second == 8
    arrange.pass_time(owner, timedelta(seconds=60))
    reserve(application)
    assert gate.look(application, "ses").rate_per_second == pytest.approx(8.8)
    reserve(application)
    assert gate.look(application, "ses").rate_per_second == pytest.approx(8.8)
    arrange.pass_time(owner, timedelta(seconds=125))
    reserve(application)
    assert gate.look(application, "ses").rate_per_second == pytest.approx(8.8 * 1.1**2)
    arrange.pass_time(owner, timedelta(days=1))
    reserve(application)
    assert gate.look(application, "ses").rate_per_second == 16


@pytest.mark.parametrize(("limit", "least"), [(14, 1), (0.5, 0.5)])
def test_a_rate_is_not_halved_below_one_a_second_or_the_limit(
    owner: Connection, application: Connection, limit: float, least: float
) -> None:
    gate.set_limit(application, "ses", limit)
    for number in range(6):
        arrange.pass_time(owner, pacing.BURST)
        note(application, Throttled("rate"), UUID(int=number))
    assert gate.look(application, "ses").rate_per_second == least


def test_one_message_that_is_refused_whenever_it_comes_halves_the_rate_once(
    owner: Connection, application: Connection
) -> None:
    gate.set_limit(application, "ses", 16)
    for _ in range(6):
        arrange.pass_time(owner, pacing.BURST)
        note(application, Throttled("rate"))
    assert gate.look(application, "ses").rate_per_second == 8
    note(application, Throttled("rate"), OTHER)
    assert gate.look(application, "ses").rate_per_second == 4


def test_a_new_limit_is_used_at_once_but_a_halved_rate_stays(
    owner: Connection, application: Connection
) -> None:
    rates = []
    for limit in (1, 14, None, 14):
        gate.set_limit(application, "ses", limit)
        rates.append(gate.look(application, "ses").rate_per_second)
    arrange.pass_time(owner, pacing.BURST)
    note(application, Throttled("rate"))
    for limit in (14, 20, 6, None):
        gate.set_limit(application, "ses", limit)
        rates.append(gate.look(application, "ses").rate_per_second)
    assert rates == [1, 14, None, 14, 7, 7, 6, None]


def test_threads_that_reserve_at_once_get_slots_of_their_own(
    open_application: Callable[[], Connection],
) -> None:
    """The slots of several processes never overlap, whoever comes first."""
    workers = [open_application() for _ in range(4)]
    gate.set_limit(workers[0], "ses", 100)

    def take(worker: Connection) -> int:
        return sum(reserve(worker, 2).taken for _ in range(25))

    with ThreadPoolExecutor(len(workers)) as threads:
        assert sum(threads.map(take, workers)) == 100
    # 200 recipients at 95 a second: 2.1 s, of which some went by while they were reserved.
    last = gate.reserve(workers[0], "ses", recipients=1, within=SOON)
    assert last
    found = (
        workers[0]
        .execute(
            "SELECT extract(epoch FROM g.next_slot_at - g.rate_changed_at)::float8 AS span"
            " FROM postlease.provider_gates AS g"
        )
        .fetchone()
    )
    assert found
    assert found["span"] >= 201 / 95 - 0.1


def test_a_reservation_waits_for_the_one_before_it(
    owner: Connection, open_application: Callable[[], Connection]
) -> None:
    """Two workers at once: the second's slots begin where the first's end."""
    first, second = open_application(), open_application()
    gate.set_limit(first, "ses", 100)
    owner.execute("UPDATE postlease.provider_gates SET next_slot_at = now() + interval '1 second'")
    with ThreadPoolExecutor(1) as threads:
        with first.transaction():
            before = gate.reserve(first, "ses", recipients=95, within=SOON)
            waiting = threads.submit(gate.reserve, second, "ses", recipients=1, within=SOON)
            deadline = time.monotonic() + 10
            while not owner.execute(
                "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
                [second.info.backend_pid],
            ).fetchall():
                assert not waiting.done(), "it did not wait"
                assert time.monotonic() < deadline, "it never asked"
        after = waiting.result(timeout=10)
    assert before
    assert after
    assert after.wait > before.wait + 0.5
