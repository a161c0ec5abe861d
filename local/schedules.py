"""EventBridge Scheduler's part: fires the template's schedules, never retries, may overlap."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from local.events import schedule_event
from local.runtime import ThrottledError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from local.functions import Function
    from local.template import Schedule

_UNITS = {"minute": 60, "hour": 3_600, "day": 86_400}
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


class ScheduleError(Exception):
    """A schedule's expression is none that can be followed here."""


def period_seconds(expression: str) -> int | None:
    """The period of `rate(…)`, or None for a cron expression."""
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    return int(match[1]) * _UNITS[match[2]] if match else None


def is_due(expression: str, moment: datetime) -> bool:
    """Whether `cron(minutes hours day month weekday year)` names moment's minute."""
    fields = _cron_fields(expression)
    weekday = moment.isoweekday() % 7 + 1  # 1 is Sunday
    actual = (moment.minute, moment.hour, moment.day, moment.month, weekday, moment.year)
    return all(
        allowed is None or value in allowed for allowed, value in zip(fields, actual, strict=True)
    )


@functools.cache
def _cron_fields(expression: str) -> tuple[frozenset[int] | None, ...]:
    match = re.fullmatch(r"cron\((.+)\)", expression)
    parts = match[1].split() if match else []
    if len(parts) != 6:
        raise ScheduleError(f"neither rate(…) nor cron(…) of six fields: {expression}")
    months = {name: number for number, name in enumerate(_MONTHS, 1)}
    days = {name: number for number, name in enumerate(_DAYS, 1)}
    bounds = ((0, 59), (0, 23), (1, 31), (1, 12), (1, 7), (1970, 2199))
    names: tuple[dict[str, int], ...] = ({}, {}, {}, months, days, {})
    return tuple(
        _allowed(text, low, high, words)
        for text, (low, high), words in zip(parts, bounds, names, strict=True)
    )


def _allowed(text: str, low: int, high: int, words: Mapping[str, int]) -> frozenset[int] | None:
    if text in {"*", "?"}:
        return None
    allowed: set[int] = set()
    for item in text.upper().split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        try:
            start = low if first == "*" else words.get(first) or int(first)
            end = high if first == "*" or (step and not last) else start
            end = (words.get(last) or int(last)) if last else end
            allowed.update(range(start, end + 1, int(step or 1)))
        except ValueError:
            raise ScheduleError(f"not understood in a cron expression: {item}") from None
    return frozenset(allowed)


class Scheduler:
    """Fires schedules from `start` to `close`. A rate fires at once, then every period."""

    def __init__(
        self, schedules: Iterable[Schedule], functions: Mapping[str, Function], *, scale: float = 1
    ) -> None:
        self._schedules = tuple(schedules)
        self._functions = functions
        self._scale = scale
        self._closed = threading.Event()
        self._off: set[str] = set()
        for schedule in self._schedules:
            if period_seconds(schedule.expression) is None:
                _cron_fields(schedule.expression)

    def start(self) -> None:
        """Begin to fire."""
        for schedule in self._schedules:
            threading.Thread(target=self._follow, args=(schedule,), daemon=True).start()

    def close(self) -> None:
        """Fire no more; what runs already is not stopped."""
        self._closed.set()

    def switch(self, name: str, *, on: bool) -> None:
        """Skip the times of the schedule of that name from now on, or keep them again."""
        (self._off.discard if on else self._off.add)(name)

    def is_on(self, name: str) -> bool:
        """Whether the schedule of that name keeps its times."""
        return name not in self._off

    def _follow(self, schedule: Schedule) -> None:
        period = period_seconds(schedule.expression)
        if period is None:
            self._follow_cron(schedule)
            return
        due = time.monotonic()
        while not self._closed.wait(max(0, due - time.monotonic())):
            self._fire(schedule)
            due += period * self._scale

    def _follow_cron(self, schedule: Schedule) -> None:
        zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
        while True:
            now = datetime.now(UTC)
            minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
            if self._closed.wait((minute - now).total_seconds()):
                return
            if is_due(schedule.expression, minute.astimezone(zone)):
                self._fire(schedule)

    def _fire(self, schedule: Schedule) -> None:
        """Invoke in a thread of its own: a run that is still going does not hold up the next."""
        if not self.is_on(schedule.name):
            return
        function = self._functions[schedule.function]
        event = schedule_event(schedule.name, schedule.input)

        def run() -> None:
            with contextlib.suppress(ThrottledError):  # as on AWS without retries: this one is lost
                function.invoke(event)

        threading.Thread(target=run, daemon=True).start()
