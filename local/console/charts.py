"""Charts as numbers that a page draws as SVG: bars for a throughput, lines for a latency. Pure.

A chart is WIDTH by HEIGHT units; its plot begins at LEFT and TOP and ends at WIDTH and BOTTOM. y
grows downwards, as in SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 640, 180
LEFT, TOP, BOTTOM = 44, 12, 156
_GAP = 0.2


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across the plot at y, and the value that it stands for."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A time below the plot."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of the series of that number."""

    series: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """Points of a series that follow each other without a gap: `x,y x,y`. One alone is a dot."""

    series: int
    points: str
    dot: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn."""

    ticks: list[Tick]
    marks: list[Mark]
    bars: list[Bar]
    lines: list[Line]


def stacked(columns: Sequence[Sequence[int]], *, unit: str = "") -> Chart:
    """Columns of bars that stand on each other, the first series lowest."""
    top = ceiling(max((sum(column) for column in columns), default=0))
    step = _step(len(columns))
    bars = []
    for place, column in enumerate(columns):
        below = 0
        for series, value in enumerate(column):
            below += value
            if value:
                x, y = LEFT + place * step + step * _GAP / 2, _y(below, top)
                height = _y(below - value, top) - y
                bars.append(Bar(series, _r(x), _r(y), _r(step * (1 - _GAP)), _r(height)))
    return Chart(_ticks(top, unit), _marks(len(columns)), bars, [])


def lines(series: Sequence[Sequence[float | None]], *, unit: str = "") -> Chart:
    """A line for each series; it is broken where a value is None."""
    top = ceiling(max((value for one in series for value in one if value is not None), default=0))
    length = max(map(len, series), default=0)
    drawn = []
    for number, one in enumerate(series):
        run: list[tuple[float, float]] = []
        for place, value in enumerate([*one, None]):
            if value is not None:
                run.append((_r(LEFT + (place + 0.5) * _step(length)), _r(_y(value, top))))
            elif run:
                points = " ".join(f"{x:g},{y:g}" for x, y in run)
                drawn.append(Line(number, points, run[0] if len(run) == 1 else None))
                run = []
    return Chart(_ticks(top, unit), _marks(length), [], drawn)


def ceiling(most: float) -> float:
    """The smallest of 1, 2, 4, 5, 10, 20, … (or their parts of ten) that is not below most."""
    if most <= 0:
        return 1
    size: float = 10.0 ** math.floor(math.log10(most))
    return next(size * step for step in (1, 2, 4, 5, 10, 20) if size * step >= most)


def _step(number: int) -> float:
    return (WIDTH - LEFT) / max(number, 1)


def _y(value: float, top: float) -> float:
    return BOTTOM - value / top * (BOTTOM - TOP)


def _r(value: float) -> float:
    return round(value, 1)


def _ticks(top: float, unit: str) -> list[Tick]:
    return [Tick(_r(_y(value, top)), f"{value:g}{unit}") for value in (0, top / 2, top)]


def _marks(number: int) -> list[Mark]:
    """Minutes ago, at every quarter."""
    quarter = max(number // 4, 1)
    return [
        Mark(_r(LEFT + place * _step(number)), f"-{number - place} min")
        for place in range(0, number, quarter)
    ][:4]
