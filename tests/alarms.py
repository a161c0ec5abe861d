"""What CloudWatch would say of an alarm of the template, over metrics that functions emitted.

As much of CloudWatch as the template uses: one metric with a statistic; periods, M out of N of
them, missing data. Whatever else an alarm says is refused, so that nothing is taken for understood.
Time is seconds since an arbitrary beginning.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tests import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

State: TypeAlias = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Key: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]

_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "Average": lambda values: sum(values) / len(values),
    "SampleCount": len,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
_QUIET = {"AlarmActions", "OKActions", "AlarmDescription"}
_KNOWN = _QUIET | {
    "Namespace",
    "MetricName",
    "Dimensions",
    "Statistic",
    "Period",
    "EvaluationPeriods",
    "DatapointsToAlarm",
    "Threshold",
    "ComparisonOperator",
    "TreatMissingData",
}


@dataclass(slots=True)
class Recorded:
    """The values that were emitted, by metric, each with its second."""

    values: dict[Key, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, text: str, *, at: float) -> None:
        """Note the metrics in text, what a function wrote, as of that second."""
        for one in metrics.read(text):
            key = (one.namespace, one.name, one.dimensions)
            self.values[key].extend((at, value) for value in one.values)

    def datapoint(self, key: Key, statistic: str, *, since: float, until: float) -> float | None:
        """The statistic of one period; None where there is no value."""
        found = [value for at, value in self.values.get(key, ()) if since <= at < until]
        return _STATISTICS[statistic](found) if found else None


def state(
    alarm: Mapping[str, Any],
    recorded: Recorded,
    *,
    now: float,
    resolve: Callable[[Any], Any] = lambda value: value,
) -> State:
    """What the alarm (its properties in the template) says at a second, by its last whole periods.

    resolve makes a value of what the template refers to. CloudWatch looks at some more periods
    where data is missing; here the last ones count alone, and so what is missing shows at once.
    """
    assert alarm.keys() <= _KNOWN, alarm.keys() - _KNOWN
    period, wanted = int(alarm["Period"]), int(alarm["EvaluationPeriods"])
    dimensions = sorted((one["Name"], resolve(one["Value"])) for one in alarm["Dimensions"])
    key = (alarm["Namespace"], alarm["MetricName"], tuple(dimensions))
    end = now - now % period
    points = [
        recorded.datapoint(
            key, alarm["Statistic"], since=end - (n + 1) * period, until=end - n * period
        )
        for n in range(wanted)
    ]
    treatment = alarm.get("TreatMissingData", "missing")
    assert treatment in {"breaching", "notBreaching", "missing"}, treatment
    if treatment == "missing" and all(point is None for point in points):
        return "INSUFFICIENT_DATA"
    compare = _COMPARISONS[alarm["ComparisonOperator"]]
    threshold = float(resolve(alarm["Threshold"]))
    breaching = sum(
        treatment == "breaching" if point is None else compare(point, threshold) for point in points
    )
    return "ALARM" if breaching >= int(alarm.get("DatapointsToAlarm", wanted)) else "OK"
