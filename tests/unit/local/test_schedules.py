"""Schedules fire as EventBridge Scheduler fires them."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from local.events import schedule_event
from local.schedules import ScheduleError, Scheduler, is_due, period_seconds
from local.template import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.functions import Function


class Recorder:
    """Stands where a function stands and lets each run wait for the test."""

    def __init__(self, *, wanted: int) -> None:
        self.events: list[Any] = []
        self.enough = threading.Event()
        self.release = threading.Event()
        self._wanted = wanted

    def invoke(self, event: Any) -> None:
        """Note the event and stay busy."""
        self.events.append(event)
        if len(self.events) >= self._wanted:
            self.enough.set()
        self.release.wait(20)


def schedule(expression: str, fixed_input: str | None = None) -> Schedule:
    """A schedule of the function `tick`."""
    return Schedule("postlease-tick", "tick", expression, "UTC", fixed_input)


def test_an_event_has_schedulers_shape_with_detail_as_text() -> None:
    event = schedule_event("postlease-sweep")
    assert event["source"] == "aws.scheduler"
    assert event["detail-type"] == "Scheduled Event"
    assert event["detail"] == "{}"
    assert event["resources"][0].endswith(":schedule/default/postlease-sweep")


def test_a_fixed_input_is_the_whole_event() -> None:
    assert schedule_event("any", '{"dry_run": true}') == {"dry_run": True}


def test_runs_may_overlap() -> None:
    recorder = Recorder(wanted=3)
    functions: Any = {"tick": recorder}
    scheduler = Scheduler([schedule("rate(1 minute)")], functions, scale=0.001)
    scheduler.start()
    try:
        assert recorder.enough.wait(20)
    finally:
        scheduler.close()
        recorder.release.set()
    assert all(event["source"] == "aws.scheduler" for event in recorder.events)


def test_a_closed_scheduler_fires_no_more() -> None:
    recorder = Recorder(wanted=1)
    recorder.release.set()
    functions: Any = {"tick": recorder}
    scheduler = Scheduler([schedule("rate(1 minute)")], functions, scale=0.001)
    scheduler.close()
    scheduler.start()
    assert not recorder.enough.wait(0.3)


def test_a_schedule_that_is_switched_off_skips_its_times_until_it_is_on_again() -> None:
    recorder, beside = Recorder(wanted=2), Recorder(wanted=2)
    for one in (recorder, beside):
        one.release.set()
    functions: Any = {"tick": recorder, "other": beside}
    schedules = [
        schedule("rate(1 minute)"),
        Schedule("postlease-other", "other", "rate(1 minute)", "UTC", None),
    ]
    scheduler = Scheduler(schedules, functions, scale=0.001)
    scheduler.switch("postlease-tick", on=False)
    scheduler.start()
    try:
        assert beside.enough.wait(20)
        assert recorder.events == []
        assert [scheduler.is_on(one.name) for one in schedules] == [False, True]
        scheduler.switch("postlease-tick", on=True)
        assert recorder.enough.wait(20)
    finally:
        scheduler.close()


def test_a_throttled_run_is_lost_without_noise(make_function: Callable[..., Function]) -> None:
    busy = make_function("", concurrency=0, reserved=True)
    scheduler = Scheduler([schedule("rate(1 minute)")], {"tick": busy}, scale=0.001)
    scheduler.start()
    recorder = Recorder(wanted=2)
    recorder.release.set()
    functions: Any = {"tick": recorder}
    beside = Scheduler([schedule("rate(1 minute)")], functions, scale=0.001)
    beside.start()
    assert recorder.enough.wait(20)
    scheduler.close()
    beside.close()
    assert busy.cold_starts == 0


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [("rate(1 minute)", 60), ("rate(5 minutes)", 300), ("rate(2 hours)", 7_200), ("cron(x)", None)],
)
def test_a_rate_is_a_period(expression: str, seconds: int | None) -> None:
    assert period_seconds(expression) == seconds


@pytest.mark.parametrize(
    ("expression", "moment", "due"),
    [
        ("cron(17 3 * * ? *)", (2026, 11, 29, 3, 17), True),
        ("cron(17 3 * * ? *)", (2026, 11, 29, 3, 18), False),
        ("cron(17 3 * * ? *)", (2026, 11, 29, 4, 17), False),
        ("cron(0/15 * * * ? *)", (2026, 11, 29, 9, 45), True),
        ("cron(0/15 * * * ? *)", (2026, 11, 29, 9, 46), False),
        ("cron(0 8-17 ? * MON-FRI *)", (2026, 11, 27, 17, 0), True),
        ("cron(0 8-17 ? * MON-FRI *)", (2026, 11, 29, 17, 0), False),
        ("cron(0 0 1 JAN,JUL ? 2027)", (2027, 7, 1, 0, 0), True),
        ("cron(0 0 1 JAN,JUL ? 2027)", (2026, 7, 1, 0, 0), False),
    ],
)
def test_a_cron_expression_names_its_minutes(
    expression: str, moment: tuple[int, int, int, int, int], due: bool
) -> None:
    assert is_due(expression, datetime(*moment, tzinfo=UTC)) is due


@pytest.mark.parametrize("expression", ["every(5)", "cron(* * *)", "cron(x * * * ? *)"])
def test_an_expression_that_is_not_understood_is_refused_at_once(expression: str) -> None:
    with pytest.raises(ScheduleError):
        Scheduler([schedule(expression)], {})
