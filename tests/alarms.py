"""What CloudWatch would say of an alarm of the template, over metrics that functions emitted.

As much of CloudWatch as the template uses: one metric with a statistic, or an expression over
several; periods, M out of N of them, missing data. Whatever else an alarm says is refused, so that
nothing is taken for understood. Time is seconds since an arbitrary beginning.
"""

from __future__ import annotations

import ast
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
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_QUIET = {"AlarmActions", "OKActions", "AlarmDescription"}
_KNOWN = _QUIET | {
    "Namespace",
    "MetricName",
    "Dimensions",
    "Statistic",
    "Period",
    "Metrics",
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
    period, wanted = _period(alarm), int(alarm["EvaluationPeriods"])
    end = now - now % period
    points = [
        _point(alarm, recorded, end - (n + 1) * period, end - n * period, resolve)
        for n in range(wanted)
    ]
    treatment = alarm.get("TreatMissingData", "missing")
    compare, threshold = (
        _COMPARISONS[alarm["ComparisonOperator"]],
        float(resolve(alarm["Threshold"])),
    )
    breaching = sum(
        treatment == "breaching" if point is None else compare(point, threshold) for point in points
    )
    if treatment == "missing" and all(point is None for point in points):
        return "INSUFFICIENT_DATA"
    assert treatment in {"breaching", "notBreaching", "missing"}, treatment
    return "ALARM" if breaching >= int(alarm.get("DatapointsToAlarm", wanted)) else "OK"


def queries(alarm: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The metrics that an alarm looks at, each with Namespace, MetricName, Dimensions."""
    if "Metrics" not in alarm:
        return [dict(alarm)]
    return [one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one]


def _period(alarm: Mapping[str, Any]) -> int:
    if "Metrics" not in alarm:
        return int(alarm["Period"])
    [period] = {one["MetricStat"]["Period"] for one in alarm["Metrics"] if "MetricStat" in one}
    return int(period)


def _key(metric: Mapping[str, Any], resolve: Callable[[Any], Any]) -> Key:
    dimensions = sorted((one["Name"], resolve(one["Value"])) for one in metric["Dimensions"])
    return (metric["Namespace"], metric["MetricName"], tuple(dimensions))


def _point(
    alarm: Mapping[str, Any],
    recorded: Recorded,
    since: float,
    until: float,
    resolve: Callable[[Any], Any],
) -> float | None:
    if "Metrics" not in alarm:
        key = _key(alarm, resolve)
        return recorded.datapoint(key, alarm["Statistic"], since=since, until=until)
    known: dict[str, float | None] = {}
    [returned] = [one for one in alarm["Metrics"] if one.get("ReturnData", True)]
    for one in alarm["Metrics"]:
        if one is not returned:
            asked = one["MetricStat"]
            key = _key(asked["Metric"], resolve)
            known[one["Id"]] = recorded.datapoint(key, asked["Stat"], since=since, until=until)
    return calculated(returned["Expression"], known)


def calculated(expression: str, known: Mapping[str, float | None]) -> float | None:
    """The value of a metric math expression in one period; None where it has none.

    Numbers, ids, the four operations, comparisons, IF and FILL. What is missing, and what is
    divided by nothing, leaves no value.
    """
    return _calculated(ast.parse(expression, mode="eval").body, known)


def _calculated(node: ast.expr, known: Mapping[str, float | None]) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _together(op, _calculated(left, known), _calculated(right, known))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _together(op, _calculated(left, known), _calculated(right, known))
        case ast.Call(func=ast.Name(id="FILL"), args=[filled, other]):
            value = _calculated(filled, known)
            return _calculated(other, known) if value is None else value
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
            asked = _calculated(condition, known)
            return None if asked is None else _calculated(then if asked else otherwise, known)
        case _:
            raise NotImplementedError(ast.dump(node))


def _together(op: ast.AST, left: float | None, right: float | None) -> float | None:
    if left is None or right is None or (isinstance(op, ast.Div) and not right):
        return None
    return float(_OPERATORS[type(op)](left, right))
