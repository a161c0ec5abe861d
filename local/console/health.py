"""What is wrong, in words that say what to look at. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.console.words import clock, many, minutes, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from local.console.figures import Figures
    from local.provider import Fault

LATE_SECONDS = 60
"""A message that has been due for longer waits too long: a sweep looks every second."""

GONE_WRONG = ("rejected", "deferred", "unreachable", "blocked", "unknown", "render_error")
"""Outcomes that say that something is wrong, with the provider or with what it was given."""

_HABITS = {
    "reject": "refuses every message",
    "throttle": "says that the rate is too high",
    "pause": "says that the account is paused",
    "unavailable": "is not available",
    "stall": "holds calls and answers none",
    "lose_response": "accepts mail and loses the answer",
    "slow": "is slow",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A function. period and ended_ago are seconds.

    period is None where it is not expected again and again, ended_ago before its first end. failure
    names the error that it last ended by. is_stopped: its schedule was switched off.
    """

    function: str
    period: int | None
    is_running: bool = False
    ended_ago: float | None = None
    failure: str | None = None
    is_stopped: bool = False


def troubles(figures: Figures, runs: Sequence[Run], fault: Fault) -> list[str]:
    """One sentence or two for each thing that is wrong; none where all is well."""
    return [*_duties(runs), *_gates(figures), *_queue(figures), *_attempts(figures), *_told(fault)]


def _duties(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run.is_stopped:
            yield f"The schedule of the {run.function} is off."
        if run.is_running or run.period is None:
            continue
        if run.ended_ago is None:
            yield f"The {run.function} has not run yet."
        elif run.ended_ago > 2 * run.period:
            yield (
                f"The {run.function} has not run for {minutes(run.ended_ago)}; it should every"
                f" {span(run.period)}."
            )
    for run in runs:
        if run.failure is not None:
            yield f"The last run of the {run.function} ended badly: {run.failure}."


def _gates(figures: Figures) -> Iterator[str]:
    for gate in figures.gates:
        if gate.state == "paused":
            yield (
                f"The gate of {gate.provider} is paused since {clock(gate.closed_at)} by"
                f" {gate.ruled_by}: {gate.ruled_because}. No mail leaves before it is opened."
            )
        elif gate.state == "closed":
            yield (
                f"The gate of {gate.provider} is closed since {clock(gate.closed_at)}"
                f" ({gate.close_reason}): the provider takes no mail. The next probe goes at"
                f" {clock(gate.probe_at)} or later."
            )


def _queue(figures: Figures) -> Iterator[str]:
    queue = figures.queue
    if queue.oldest_due_seconds > LATE_SECONDS:
        yield (
            f"{many(queue.due, 'message waits', 'messages wait')}, the oldest for"
            f" {minutes(queue.oldest_due_seconds)}."
        )
    if queue.expired_leases:
        yield (
            f"{many(queue.expired_leases, 'lease is', 'leases are')} over: a worker died, or"
            " hangs. The reaper takes care of it."
        )
    if queue.unknown:
        yield (
            f"{many(queue.unknown, 'outcome is', 'outcomes are')} unknown: the call left and"
            " nobody has heard."
        )


def _attempts(figures: Figures) -> Iterator[str]:
    outcomes = figures.outcomes
    lost = outcomes.get("worker_lost", 0)
    if lost:
        yield f"{many(lost, 'attempt was', 'attempts were')} lost with a worker lately."
    wrong = {name: outcomes[name] for name in GONE_WRONG if outcomes.get(name)}
    if wrong:
        ended = sum(outcomes.values()) - lost
        listed = ", ".join(f"{count} {name}" for name, count in wrong.items())
        yield f"{sum(wrong.values())} of the last {many(ended, 'attempt')} went wrong: {listed}."


def _told(fault: Fault) -> Iterator[str]:
    if fault.mode != "accept" and fault.times != 0:
        left = f" ({fault.times} more calls)" if fault.times else ""
        yield f"A fault is injected: the provider {_HABITS[fault.mode]}{left}."
