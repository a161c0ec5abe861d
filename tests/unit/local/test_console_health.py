"""What the console says is wrong."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from local.console import words
from local.console.figures import Figures, Queue
from local.console.health import Run, troubles
from local.provider import MODES, Fault
from postlease.gate import GateReport

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 3, 12, 9, 30, tzinfo=UTC)
WELL = Fault()


def said(
    *runs: Run, fault: Fault = WELL, gates: tuple[GateReport, ...] = (), **found: Any
) -> list[str]:
    """The troubles of a queue of those counts; outcomes are attempts'."""
    outcomes = found.pop("outcomes", {})
    return troubles(Figures(Queue(NOW, **found), list(gates), outcomes=outcomes), runs, fault)


def test_where_all_is_well_nothing_is_said() -> None:
    runs = (
        Run("sweep", 60, ended_ago=119),
        Run("retention", None),
        Run("reaper", 60, is_running=True),
    )
    assert said(*runs, queued=9, due=9, oldest_due_seconds=60, outcomes={"accepted": 5}) == []


def test_a_function_that_has_not_run_for_two_periods_is_told() -> None:
    assert said(Run("sweep", 60, ended_ago=300)) == [
        "The sweep has not run for 5 min; it should every 60 s."
    ]
    assert said(Run("reaper", 60)) == ["The reaper has not run yet."]


def test_a_schedule_that_is_switched_off_is_told_at_once() -> None:
    run = Run("sweep", 60, is_running=True, is_stopped=True)
    assert said(run) == ["The schedule of the sweep is off."]


def test_a_run_that_ended_badly_is_told_of_any_function() -> None:
    [text] = said(Run("retention", None, ended_ago=5, failure="Runtime.ExitError"))
    assert text == "The last run of the retention ended badly: Runtime.ExitError."


def test_a_paused_gate_names_who_paused_it_and_a_closed_one_why() -> None:
    paused = GateReport(
        "ses", "paused", "operator", NOW, ruled_at=NOW, ruled_by="ada", ruled_because="a test"
    )
    closed = GateReport("smtp", "closed", "unreachable", NOW, probe_at=NOW)
    first, second = said(gates=(paused, closed, GateReport("resend")))
    assert first.startswith("The gate of ses is paused since 09:30:00Z by ada: a test.")
    assert "The gate of smtp is closed since 09:30:00Z (unreachable)" in second
    assert "next probe goes at 09:30:00Z" in second


def test_what_waits_too_long_is_counted_and_its_age_told() -> None:
    assert said(due=1_200, oldest_due_seconds=61) == ["1,200 messages wait, the oldest for 1 min."]
    assert said(due=1, oldest_due_seconds=7_300) == ["1 message waits, the oldest for 2 h."]


def test_leases_that_are_over_and_unknown_outcomes_are_counted() -> None:
    lease, unknown = said(expired_leases=2, unknown=1)
    assert lease.startswith("2 leases are over: a worker died")
    assert unknown.startswith("1 outcome is unknown: the call left")


def test_attempts_that_went_wrong_are_counted_among_all_and_lost_ones_apart() -> None:
    outcomes = {"accepted": 3, "rejected": 2, "unreachable": 1, "worker_lost": 1, "throttled": 1}
    assert said(outcomes=outcomes) == [
        "1 attempt was lost with a worker lately.",
        "3 of the last 7 attempts went wrong: 2 rejected, 1 unreachable.",
    ]


@pytest.mark.parametrize("mode", MODES)
def test_an_injected_fault_is_told_until_it_is_used_up(mode: Any) -> None:
    told = said(fault=Fault(mode, 2))
    assert len(told) == (mode != "accept")
    assert all("(2 more calls)" in text for text in told)
    assert said(fault=Fault(mode, 0)) == []


def test_numbers_durations_and_sizes_read_as_people_say_them() -> None:
    assert words.many(1, "mail") == "1 mail"
    assert words.many(2_000, "mail") == "2,000 mails"
    assert [words.minutes(n) for n in (59, 119, 7_199, 7_200, 200_000)] == [
        "less than a minute",
        "1 min",
        "119 min",
        "2 h",
        "2 d",
    ]
    assert [words.seconds(n) for n in (None, 0.123, 9.999, 12.3)] == [
        "-",
        "0.12 s",
        "10.00 s",
        "12 s",
    ]
    assert [words.size(n) for n in (1, 999, 1_500, 2_500_000)] == [
        "1 byte",
        "999 bytes",
        "1.5 kB",
        "2.5 MB",
    ]
    assert words.cut("abc", 3) == "abc"
    assert words.cut("abcd", 3) == "abc…"
    assert words.moment("2026-03-12T10:30:00.9+01:00") == "2026-03-12 09:30:00Z"
    assert words.moment(None) == words.clock(None) == "-"


def test_what_the_operations_page_says_of_the_overview_is_what_it_says() -> None:
    shut = (
        GateReport("ses", "closed", "unreachable", NOW, probe_at=NOW),
        GateReport("ses", "paused", "operator", NOW, ruled_at=NOW, ruled_by="a", ruled_because="b"),
    )
    runs = (
        Run("sweep", 60, ended_ago=300, is_stopped=True),
        Run("sweep", None, failure="Runtime.ExitError"),
    )
    text = " ".join(
        said(
            *runs,
            gates=shut,
            due=40,
            oldest_due_seconds=600,
            expired_leases=1,
            unknown=1,
            outcomes={"rejected": 3, "worker_lost": 1},
        )
    )
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page.partition("| what the overview says |\n")[2].partition("\n\n")[0]
    phrases = re.findall("`([^`]+)`", table)
    assert len(phrases) == 10
    assert [phrase for phrase in phrases if phrase not in text] == []
