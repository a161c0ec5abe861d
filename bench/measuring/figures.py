"""Arithmetic of the results. Pure: neither clock nor database."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of several runs, and the least and the most of them."""

    median: float
    low: float
    high: float

    def plain(self) -> dict[str, float]:
        """As it stands in results.json."""
        return {"median": short(self.median), "low": short(self.low), "high": short(self.high)}


def figure(values: Sequence[float]) -> Figure:
    """What to tell of values, of which there is at least one."""
    return Figure(statistics.median(values), min(values), max(values))


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """Ours by theirs, turn by turn: what slowed the machine in one turn slowed both.

    ValueError unless there are as many of the one as of the other.
    """
    return figure([mine / yours for mine, yours in zip(ours, theirs, strict=True)])


def of_percentiles(ours: Sequence[float], theirs: Sequence[float], percent: float) -> Figure:
    """A percentile of ours by that of theirs; the range takes in each third of both by itself."""
    whole = percentile(ours, percent) / percentile(theirs, percent)
    third = len(ours) // 3
    parts = [
        percentile(ours[at : at + third], percent) / percentile(theirs[at : at + third], percent)
        for at in (0, third, 2 * third)
    ]
    return Figure(whole, min(whole, *parts), max(whole, *parts))


def percentile(values: Sequence[float], percent: float) -> float:
    """The least of values that percent of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


def short(value: float) -> float:
    """Four significant digits: more would say more than was measured."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, 3 - math.floor(math.log10(abs(value))))
