"""Guards over the dashboard: it names what is there and emitted, and answers what it must."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.metrics import DIMENSION, DISTRIBUTIONS, NAMES, NAMESPACE, SAMPLES

if TYPE_CHECKING:
    from tests.template.deployment import Deployment

OWN = [DIMENSION, "${AWS::StackName}"]

# Metrics of AWS that a widget may name: of which namespace, under which dimension, of what.
THEIRS = {
    ("AWS/Lambda", "FunctionName"): (
        "AWS::Lambda::Function",
        {"Invocations", "Duration", "Errors", "Throttles"},
    ),
    ("AWS/SQS", "QueueName"): ("AWS::SQS::Queue", {"ApproximateNumberOfMessagesVisible"}),
    ("AWS/ApiGateway", "ApiId"): ("AWS::ApiGatewayV2::Api", {"Count", "4xx", "5xx", "Latency"}),
}

# What an engineer on call must find at a glance, by the widget's title.
ANSWERED: dict[str, set[str]] = {
    "Queue by state": {"Queued", "Sending"},
    "Oldest due, seconds": {"OldestDueSeconds"},
    "Gate closed, unknown now, expired leases": {"GatePaused", "UnknownNow", "ExpiredLeases"},
    "Due to sent, milliseconds": {"EnqueueToSent"},
    "Sent within 10 s, percent": {"SentWithin10s", "Sent"},
    "Messages that ended": {
        "Sent",
        "FailedRejected",
        "FailedUnprepared",
        "FailedExhausted",
        "FailedWorkerLost",
        "FailedUnknown",
        "Expired",
        "Superseded",
        "Suppressed",
    },
    "Attempts by outcome, but accepted": {"Unreachable", "Throttled", "Blocked", "UnknownOutcomes"},
    "Attempts gone wrong, percent": {"AttemptFailed"},
    "Bounced for good and complained, percent": {"HardBounced", "Complained"},
    "Heartbeats in five minutes": {"SweepHeartbeat", "ReaperHeartbeat"},
    "Retention, a day": {"RetentionHeartbeat", "PurgedMessages", "PurgedObjects"},
    "Invocations": {"Invocations"},
    "GB-seconds an hour": {"Duration"},
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a widget: where it is from, whose, and how it is shown."""

    namespace: str
    name: str
    dimensions: list[str]
    options: dict[str, Any]


def widgets(deployed: Deployment) -> list[dict[str, Any]]:
    """The dashboard's widgets, as CloudWatch reads them but for what is referred to."""
    text = deployed.resources["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    found: list[dict[str, Any]] = json.loads(text)["widgets"]
    return found


def _metrics(properties: dict[str, Any]) -> list[Metric]:
    found = []
    for row in properties.get("metrics", ()):
        *names, last = row if isinstance(row[-1], dict) else (*row, {})
        if names:
            found.append(Metric(names[0], names[1], names[2:], last))
    return found


def _expressions(properties: dict[str, Any]) -> list[str]:
    return [row[0]["expression"] for row in properties.get("metrics", ()) if len(row) == 1]


def dashboard_metrics(deployed: Deployment) -> list[str]:
    """Every metric is emitted under the dimension that the widget names, or is AWS's own of ours.

    A distribution is shown by percentiles, for a sum of times says nothing; ones and zeros by their
    average.
    """
    complaints = []
    for widget in widgets(deployed):
        properties = widget["properties"]
        for metric in _metrics(properties):
            stat = metric.options.get("stat", properties.get("stat", ""))
            complaints.extend(
                f"{properties['title']}: {complaint}"
                for complaint in _complaints(deployed, metric, stat)
            )
    return complaints


def _complaints(deployed: Deployment, metric: Metric, stat: str) -> list[str]:
    if metric.namespace == NAMESPACE:
        wrong = {
            f"{metric.name} is emitted by nobody": metric.name not in NAMES,
            f"{metric.name} has other dimensions": metric.dimensions != OWN,
            f"{metric.name} is a distribution": metric.name in DISTRIBUTIONS
            and not re.fullmatch(r"p\d+", stat),
            f"{metric.name} is shown by no average": metric.name in SAMPLES and stat != "Average",
        }
        return [complaint for complaint, holds in wrong.items() if holds]
    dimension, value = metric.dimensions
    kind, names = THEIRS.get((metric.namespace, dimension), ("", set()))
    reference = re.fullmatch(r"\$\{(\w+)(\.QueueName)?\}", value)
    resource = deployed.resources.get(reference[1], {}) if reference else {}
    if metric.name not in names or resource.get("Type") != kind:
        return [f"{metric.namespace} has no {metric.name} of {value}"]
    return []


def dashboard_expressions(deployed: Deployment) -> list[str]:
    """An expression speaks of metrics of its own widget, by their ids, and of no other."""
    complaints = []
    for widget in widgets(deployed):
        properties = widget["properties"]
        ids = {metric.options["id"] for metric in _metrics(properties) if "id" in metric.options}
        named = {name for one in _expressions(properties) for name in re.findall(r"[a-z]+\w*", one)}
        complaints.extend(
            f"{properties['title']}: {name} is on one side alone" for name in sorted(ids ^ named)
        )
    return complaints


def dashboard_answers(deployed: Deployment) -> list[str]:
    """What has to be seen is there: each question of the table, all alarms, all that costs."""
    found: dict[str, set[str]] = {}
    alarms: set[str] = set()
    for widget in widgets(deployed):
        properties = widget["properties"]
        title = properties.get("title", properties.get("markdown"))
        found[title] = {metric.name for metric in _metrics(properties)}
        alarms |= set(properties.get("alarms", ()))
    complaints = [
        f"{title} does not show {name}"
        for title, names in ANSWERED.items()
        for name in sorted(names - found.get(title, set()))
    ]
    wanted = {f"${{{name}.Arn}}" for name in deployed.of_type("AWS::CloudWatch::Alarm")}
    complaints.extend(f"{name} is not among the alarms" for name in sorted(wanted - alarms))
    complaints.extend(f"{name} is no alarm" for name in sorted(alarms - wanted))
    return complaints + _costs(deployed)


def _costs(deployed: Deployment) -> list[str]:
    """GB-seconds weigh each function's time by its memory; migrate runs at deployments alone."""
    [properties] = [
        one["properties"]
        for one in widgets(deployed)
        if one["properties"].get("title") == "GB-seconds an hour"
    ]
    [expression] = _expressions(properties)
    weights = {name: int(memory) for memory, name in _weights(expression)}
    functions = {
        metric.options["id"]: metric.dimensions[1].strip("${}") for metric in _metrics(properties)
    }
    memory = {
        name: deployed.functions()[function]["MemorySize"] for name, function in functions.items()
    }
    complaints = [
        f"GB-seconds weigh {name} by {weights.get(name)} MB, not {size}"
        for name, size in memory.items()
        if weights.get(name) != size
    ]
    left_out = deployed.functions().keys() - {*functions.values(), "MigrateFunction"}
    return complaints + [f"GB-seconds leave out {name}" for name in sorted(left_out)]


def _weights(expression: str) -> list[tuple[str, str]]:
    return re.findall(r"(\d+) \* FILL\((\w+), 0\)", expression)


def dashboard_places(deployed: Deployment) -> list[str]:
    """No widget lies over another, or beyond the grid's 24 columns."""
    taken: dict[tuple[int, int], str] = {}
    complaints = set()
    for widget in widgets(deployed):
        title = widget["properties"].get("title", widget["properties"].get("markdown"))
        for x in range(widget["x"], widget["x"] + widget["width"]):
            for y in range(widget["y"], widget["y"] + widget["height"]):
                if taken.setdefault((x, y), title) != title or x >= 24:
                    complaints.add(f"{title} has no place of its own")
    return sorted(complaints)
