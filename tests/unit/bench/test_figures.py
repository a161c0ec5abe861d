"""The bench's arithmetic: medians, ratios, percentiles, and what is written of them."""

from __future__ import annotations

import json

import pytest

from bench.measuring.figures import Figure, figure, of_percentiles, paired, percentile, short
from bench.measuring.findings import Bars, Finding, Table
from bench.measuring.wording import number, spread
from bench.report import chart, page, results
from bench.report.targets import TARGETS

FINDING = Finding(
    "A case",
    "What was done.",
    (Table(("what", "ms"), (("one", "2.00"),)),),
    {"queue_vs_pgbench": Figure(0.6, 0.5, 0.7), "claim_far_future": Figure(3.0, 2.0, 4.0)},
    {},
    (Bars("Rates", "messages/s", {"Postlease": 10.0, "a <peer>": 5.0}),),
)
MACHINE = {
    "measured_at": "2026-01-01",
    "cores": 2,
    "processor": "one",
    "memory_gb": 1,
    "system": "a system",
    "kernel": "6",
    "python": "3.13",
    "load": 0.1,
    "turns": 3,
}


def test_a_figure_is_the_median_with_its_range() -> None:
    assert figure([3, 1, 2]) == Figure(2, 1, 3)


def test_a_ratio_is_taken_turn_by_turn() -> None:
    """The second turn was slow for both: it says the same as the others."""
    assert paired([10, 5, 12], [5, 2.5, 6]) == Figure(2, 2, 2)


def test_a_ratio_wants_as_many_of_each() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        paired([1, 2], [1])


def test_a_ratio_of_percentiles_is_that_of_all_and_its_range_takes_in_each_third() -> None:
    ours, theirs = [2, 2, 4, 4, 30, 30], [2, 2, 2, 2, 10, 10]
    assert of_percentiles(ours, theirs, 50) == Figure(2, 1, 3)


def test_a_ratio_never_lies_outside_its_range() -> None:
    found = of_percentiles([1, 9, 9, 1, 1, 1], [1, 1, 1, 1, 9, 9], 50)
    assert found.low <= found.median <= found.high


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile(list(range(1, 101)), percent) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (12_345.6, 12_350), (0.000123456, 0.0001235), (-1.23456, -1.235)],
)
def test_no_more_than_four_digits_are_kept(value: float, expected: float) -> None:
    assert short(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (12_345, "12,345"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.123"),
    ],
)
def test_numbers_read_short(value: float, expected: str) -> None:
    assert number(value) == expected


def test_a_single_run_has_no_range() -> None:
    assert spread(Figure(2, 2, 2)) == "2.00"
    assert spread(Figure(2, 1, 3)) == "2.00 (1.00 to 3.00)"


def test_results_hold_the_ratios_under_their_keys_and_only_those_that_were_measured() -> None:
    found = results.results([FINDING], failures={}, machine=MACHINE, versions={}, seconds=1)
    assert found["ratios"] == {"queue_vs_pgbench": 0.6, "claim_far_future": 3.0}
    assert found["targets_met"] == {"queue_vs_pgbench": True, "claim_far_future": False}
    assert json.loads(json.dumps(found)) == found


def test_every_ratio_has_exactly_one_bound() -> None:
    assert all((target.least is None) != (target.most is None) for target in TARGETS.values())


def test_a_bound_itself_is_met() -> None:
    assert TARGETS["queue_vs_pgbench"].is_met(0.5)
    assert not TARGETS["queue_vs_pgbench"].is_met(0.499)
    assert TARGETS["claim_far_future"].is_met(2.0)
    assert not TARGETS["claim_far_future"].is_met(2.001)


def test_the_page_tells_what_missed_its_aim_and_what_was_not_measured() -> None:
    text = page.page(
        [FINDING],
        failures={"overload": "LostError"},
        machine=MACHINE,
        versions={"PostgreSQL": "18"},
        settings={},
        seconds=60,
    )
    assert "| what | ms |\n| --- | --- |\n| one | 2.00 |" in text
    assert "| 3.00 (2.00 to 4.00) | at most 2.0 | **no** |" in text
    assert "- overload: LostError" in text
    assert "Not computed" in text  # of the costs: most that they are made of is missing


def test_the_chart_draws_each_bar_in_its_measure() -> None:
    drawn = chart.chart(FINDING.bars)
    assert 'width="420"' in drawn
    assert 'width="210"' in drawn
    assert "a &lt;peer&gt;" in drawn
