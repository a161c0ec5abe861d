"""The console's charts as numbers."""

from __future__ import annotations

import pytest

from local.console import charts
from local.console.charts import BOTTOM, LEFT, TOP, WIDTH


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 1), (0.03, 0.04), (1, 1), (1.2, 2), (3, 4), (4.5, 5), (7, 10), (11, 20), (9_999, 10_000)],
)
def test_the_scale_ends_at_the_next_round_number(most: float, top: float) -> None:
    assert charts.ceiling(most) == pytest.approx(top)


def test_bars_stand_on_each_other_and_none_is_drawn_for_nothing() -> None:
    drawn = charts.stacked([(0, 0), (3, 1), (4, 0), (0, 2)])
    assert [tick.label for tick in drawn.ticks] == ["0", "2", "4"]
    assert [(tick.y) for tick in drawn.ticks] == [BOTTOM, (BOTTOM + TOP) / 2, TOP]
    sent, failed, whole, alone = drawn.bars
    assert (sent.series, failed.series, whole.series, alone.series) == (0, 1, 0, 1)
    assert sent.y + sent.height == BOTTOM
    assert failed.y + failed.height == sent.y
    assert (failed.y, whole.y) == (TOP, TOP)
    assert alone.y + alone.height == BOTTOM
    assert sent.x == failed.x < whole.x < alone.x


def test_everything_is_inside_the_plot() -> None:
    drawn = charts.stacked([(place, 60 - place) for place in range(60)])
    for bar in drawn.bars:
        assert LEFT <= bar.x <= bar.x + bar.width <= WIDTH
        assert TOP <= bar.y <= bar.y + bar.height <= BOTTOM + 0.1


def test_a_line_breaks_where_nothing_is_known_and_one_point_alone_is_a_dot() -> None:
    drawn = charts.lines([[None, 1.0, 2.0, None], [2.0, None, None, None]], unit=" s")
    assert [tick.label for tick in drawn.ticks] == ["0 s", "1 s", "2 s"]
    first, second = drawn.lines
    assert (first.series, second.series) == (0, 1)
    assert first.points.split()[1].endswith(f",{TOP}")
    assert first.dot is None
    assert second.dot == (pytest.approx(LEFT + (WIDTH - LEFT) / 8), TOP)


def test_an_hour_of_nothing_has_a_scale_and_its_quarters() -> None:
    for drawn in (charts.stacked([(0, 0)] * 60), charts.lines([[None] * 60])):
        assert [tick.label for tick in drawn.ticks][::2][0].startswith("0")
        assert [mark.label for mark in drawn.marks] == ["-60 min", "-45 min", "-30 min", "-15 min"]
        assert (drawn.bars, drawn.lines) == ([], [])


def test_a_chart_of_no_columns_is_drawn_too() -> None:
    assert charts.stacked([]).bars == charts.lines([]).lines == []
