"""What stands for CloudWatch in the tests of the alarms says what CloudWatch would say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.alarms import Recorded, State, state


def emitted(name: str, *values: float, service: str = "postlease") -> str:
    """A line in the embedded format."""
    directive = {
        "Namespace": "Postlease",
        "Dimensions": [["service"]],
        "Metrics": [{"Name": name, "Unit": "Count"}],
    }
    line = {"_aws": {"CloudWatchMetrics": [directive]}, "service": service, name: values}
    return f"another line\n{json.dumps(line)}"


ALARM: dict[str, Any] = {
    "Namespace": "Postlease",
    "MetricName": "Beats",
    "Dimensions": [{"Name": "service", "Value": "postlease"}],
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 3,
    "DatapointsToAlarm": 2,
    "Threshold": 1,
    "ComparisonOperator": "LessThanThreshold",
    "TreatMissingData": "notBreaching",
}


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ({0: 1, 1: 1, 2: 1}, "OK"),
        ({0: 0, 1: 1, 2: 1}, "OK"),
        ({0: 0, 1: 1, 2: 0}, "ALARM"),
        ({0: 0}, "OK"),
        ({}, "OK"),
    ],
)
def test_an_alarm_rings_when_enough_of_its_last_periods_breach(
    minutes: dict[int, float], said: State
) -> None:
    recorded = Recorded()
    for minute, value in minutes.items():
        recorded.take(emitted("Beats", value), at=minute * 60)
    assert state(ALARM, recorded, now=180) == said


@pytest.mark.parametrize(
    ("treatment", "said"),
    [("breaching", "ALARM"), ("notBreaching", "OK"), ("missing", "INSUFFICIENT_DATA")],
)
def test_silence_is_what_the_alarm_takes_it_for(treatment: str, said: State) -> None:
    assert state(ALARM | {"TreatMissingData": treatment}, Recorded(), now=180) == said


def test_another_stack_s_metric_and_another_period_s_are_not_looked_at() -> None:
    recorded = Recorded()
    recorded.take(emitted("Beats", 5, service="other"), at=70)
    recorded.take(emitted("Beats", 5), at=200)
    assert state(ALARM | {"TreatMissingData": "breaching"}, recorded, now=200) == "ALARM"


@pytest.mark.parametrize(
    ("statistic", "value"), [("Sum", 12), ("Maximum", 8), ("Minimum", 1), ("Average", 4)]
)
def test_a_period_s_value_is_its_statistic_over_all_lines(statistic: str, value: float) -> None:
    recorded = Recorded()
    recorded.take(emitted("Beats", 1, 3), at=0)
    recorded.take(emitted("Beats", 8), at=59)
    key = ("Postlease", "Beats", (("service", "postlease"),))
    assert recorded.datapoint(key, statistic, since=0, until=60) == value


def test_what_is_not_understood_is_refused() -> None:
    with pytest.raises(AssertionError):
        state(ALARM | {"ExtendedStatistic": "p99"}, Recorded(), now=180)
