"""What mail costs: sums of list prices and of what a run measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases.queues import SLOW
from bench.measuring.findings import Finding
from bench.report import costs, outlook
from bench.report.prices import MEMORY, MILLION, PRICES, Price

DOCS = Path(__file__).parents[3] / "docs"
RUN = costs.Measured(
    full_path_cpu_per_1000=0.5,
    ses_cpu_per_1000=1.0,
    signup_p50_ms=10.0,
    server_cpu_per_1000=0.1,
    wal_per_message=4_096,
    rows_deleted_per_second=10_000,
)
QUEUE = Finding(
    SLOW,
    "What was done.",
    figures={
        "Postlease": {"server_cpu_per_1000": {"median": 0.1}, "wal_per_message": {"median": 4_096}}
    },
)
REST = {
    "full_path_cpu_per_1000": 0.5,
    "ses_cpu_per_1000": 1.0,
    "signup_p50_ms": 10.0,
    "rows_deleted_per_second": 10_000,
}


def finding(**figures: object) -> Finding:
    return Finding("A case", "What was done.", figures=figures)


def test_a_price_is_of_its_unit() -> None:
    assert Price(0.40, MILLION, "requests", MEMORY).times(2 * MILLION) == pytest.approx(0.80)


@pytest.mark.parametrize("name", PRICES)
def test_a_price_stands_on_the_page_that_it_is_from(name: str) -> None:
    price = PRICES[name]
    if price.source != MEMORY:
        assert price.told in (DOCS / price.source).read_text("utf-8")


def test_all_of_it_is_measured_or_nothing_is_computed() -> None:
    assert costs.measured([finding(**REST), QUEUE]) == RUN
    assert costs.measured([finding(**REST)]) is None
    assert "Not computed" in outlook.outlook([QUEUE])


def test_the_case_counts_whose_provider_takes_its_time() -> None:
    idle = {"Postlease": {"server_cpu_per_1000": {"median": 9}, "wal_per_message": {"median": 9}}}
    assert costs.measured([finding(**idle), finding(**REST), QUEUE, finding(**idle)]) == RUN
    assert costs.measured([finding(**idle), finding(**REST)]) is None


def test_what_a_stack_has_is_what_the_page_of_its_deployment_counts() -> None:
    page = (DOCS / "deploy.md").read_text("utf-8")
    assert f"for {costs.ALARMS} alarms" in page
    assert f"for {costs.METRICS} metrics" in page
    compute = costs.idle()["Lambda: a sweep that always looks, a reaper each minute"]
    assert f"about ${compute:.0f}, nearly all of it the sweep" in page
    assert f"{costs.ROW_KB} kB when it was sent" in page


def test_the_database_s_part_of_a_sign_up_is_bounded_by_its_time() -> None:
    assert costs.asking_at_most(RUN) == pytest.approx(10_000 / 3_600 / 0.25 * 0.12)


def test_a_sweep_sends_what_its_processor_or_its_slots_allow() -> None:
    assert RUN.sweep_rate(1_769, 1_000) == pytest.approx(1_000)
    assert RUN.sweep_rate(1_769 / 2, 1_000) == pytest.approx(500)
    assert RUN.sweep_rate(1_769, 10) == pytest.approx(100)


def test_what_waits_is_paid_all_month() -> None:
    waits = list(costs.idle().values())
    gigabyte_seconds = 730 * 3_600 * 1.0 + 730 * 60 * 0.1 * 0.5
    assert waits[0] == pytest.approx(gigabyte_seconds * 0.0000133334 + 0.0876 * 0.20)
    assert waits[1] == pytest.approx(0.0876 + 2 * 5 * 3 * 730 * 60 / MILLION * 0.40)
    assert waits[2] == pytest.approx(4 * 0.40 + 23 * 0.10 + 34 * 0.30 + 3.00)
    assert waits[3] == pytest.approx(43.80)


def test_a_million_by_sql_pay_for_their_events_and_their_rows() -> None:
    paid = costs.a_million(RUN, signed_up=False)
    assert list(paid.values()) == pytest.approx(
        [
            2 * MILLION * 0.02 * 0.5 * 0.0000133334 + 2 * 0.20,
            6 * 0.40 + 2 * 1.00,
            2 * 0.50,
            100 / 3_600 / 0.25 * 0.12 + 2 * 0.20 + 1.5 * 3 * 0.10,
            100,
        ]
    )
    assert costs.without_ses(paid) == pytest.approx(sum(paid.values()) - 100)


def test_a_million_sign_ups_pay_for_request_answer_and_doorbell_besides() -> None:
    plain, signed_up = (costs.a_million(RUN, signed_up=one) for one in (False, True))
    more = [signed_up[name] - plain[name] for name in plain]
    seconds = 0.010 / (1_024 / 1_769) + 0.15
    assert more == pytest.approx(
        [MILLION * seconds * 0.0000133334 + 2 * 0.20, 1.00 + 3 * 0.40, 2 * 0.50, 0, 0]
    )


def test_a_day_is_held_to_its_peak() -> None:
    day = costs.daily(RUN, 86_400 * 1_000, peak=2)
    assert day.rate == pytest.approx(2_000)
    assert day.slots == pytest.approx(200)
    assert day.sweeps == pytest.approx(2)
    assert day.database_processors == pytest.approx(0.2)
    assert day.wal_megabytes == pytest.approx(2_000 * 4_096 / MILLION)
    assert day.deleting_share == pytest.approx(0.1)
    assert day.ses_dollars == pytest.approx(8_640)


def test_the_page_tells_what_a_smaller_function_makes_of_the_figures() -> None:
    text = outlook.outlook([finding(**REST, slowest_init_ms=200.0), QUEUE])
    assert "| 512 MB | 0.29 | 579 | 289 | 34.6 | 691 |" in text
    assert "| 1,769 MB | 1.00 | 2,000 | 1,000 | 10.0 | 200 |" in text
    assert "| GB-second of Lambda, arm64 | 1 | 0.0000133334 |" in text
    assert "| requests to SQS | 1,000,000 | 0.40 |" in text
