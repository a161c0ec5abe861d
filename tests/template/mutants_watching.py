"""Broken alarms and dashboards."""

from __future__ import annotations

from tests.template import guards_dashboard, guards_watching
from tests.template.deployment import source
from tests.template.mutant import Mutant, of

BODY: str = source()["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
_BODY = of("Dashboard", "DashboardBody", "Fn::Sub")
_OWN = '"service", "${AWS::StackName}"'


def _body(whole: str, broken: str) -> str:
    assert whole in BODY, whole
    return BODY.replace(whole, broken, 1)


MUTANTS = (
    Mutant(
        "an alarm on another metric",
        guards_watching.alarms,
        "GatePausedAlarm watches",
        of("GatePausedAlarm", "MetricName"),
        "GatePauses",
    ),
    Mutant(
        "an alarm that is gone",
        guards_watching.alarms,
        "DeadLettersAlarm is not on the list",
        ("Resources", "DeadLettersAlarm"),
    ),
    Mutant(
        "a function whose errors nobody counts",
        guards_watching.alarms,
        "RetentionErrorsAlarm is not on the list",
        ("Resources", "RetentionErrorsAlarm"),
    ),
    Mutant(
        "a heartbeat whose absence is fine",
        guards_watching.alarms,
        "SweepHeartbeatAlarm takes silence for notBreaching",
        of("SweepHeartbeatAlarm", "TreatMissingData"),
        "notBreaching",
    ),
    Mutant(
        "a retention that may be gone for a week",
        guards_watching.alarms,
        "RetentionHeartbeatAlarm rings at: Maximum in 300 s > 604800, 1 of 1",
        of("RetentionHeartbeatAlarm", "Threshold"),
        604_800,
    ),
    Mutant(
        "a rate that is none",
        guards_watching.alarms,
        "FailureRateAlarm rings at: Sum in 60 s > 0.2, 5 of 10",
        of("FailureRateAlarm", "Statistic"),
        "Sum",
    ),
    Mutant(
        "a rate of one mail or two",
        guards_watching.alarms,
        "FailureRateAlarm rings at: Average in 60 s > 0.2, 2 of 10",
        of("FailureRateAlarm", "DatapointsToAlarm"),
        2,
    ),
    Mutant(
        "an alarm that tells nobody",
        guards_watching.alarms,
        "OldestDueAlarm tells nobody",
        of("OldestDueAlarm", "AlarmActions"),
    ),
    Mutant(
        "an alarm that does not say what to do",
        guards_watching.alarms,
        "OldestDueAlarm does not say what to do first",
        of("OldestDueAlarm", "AlarmDescription"),
        "A due message waits",
    ),
    Mutant(
        "an alarm over more time than CloudWatch takes",
        guards_watching.alarms,
        "SweepHeartbeatAlarm looks back further than CloudWatch does",
        of("SweepHeartbeatAlarm", "EvaluationPeriods"),
        400,
    ),
    Mutant(
        "an alarm on a metric that nobody emits",
        guards_watching.custom_metrics,
        "OldestDueAlarm watches OldestDueMinutes, which no code emits",
        of("OldestDueAlarm", "MetricName"),
        "OldestDueMinutes",
    ),
    Mutant(
        "an alarm that all stacks share",
        guards_watching.custom_metrics,
        "GatePausedAlarm watches GatePaused under other dimensions than it has",
        of("GatePausedAlarm", "Dimensions", 0, "Value"),
        "postlease",
    ),
    Mutant(
        "an alarm on a dimension that is none",
        guards_watching.custom_metrics,
        "GatePausedAlarm watches GatePaused under other dimensions than it has",
        of("GatePausedAlarm", "Dimensions", 0, "Name"),
        "Service",
    ),
    Mutant(
        "a widget of a metric that nobody emits",
        guards_dashboard.dashboard_metrics,
        "Queue by state: Waiting is emitted by nobody",
        _BODY,
        _body('"Queued"', '"Waiting"'),
    ),
    Mutant(
        "a widget that all stacks share",
        guards_dashboard.dashboard_metrics,
        "Queue by state: Queued has other dimensions",
        _BODY,
        _body(_OWN, '"service", "postlease"'),
    ),
    Mutant(
        "a sum of times",
        guards_dashboard.dashboard_metrics,
        "Due to sent, milliseconds: EnqueueToSent is a distribution",
        _BODY,
        _body('{"stat": "p50", "label": "p50"}', '{"label": "p50"}'),
    ),
    Mutant(
        "a sum of ones and zeros",
        guards_dashboard.dashboard_metrics,
        "Attempts gone wrong, percent: AttemptFailed is shown by no average",
        _BODY,
        _body('"id": "wrong", "visible": false, "stat": "Average"', '"id": "wrong"'),
    ),
    Mutant(
        "a widget of a queue that is not there",
        guards_dashboard.dashboard_metrics,
        "AWS/SQS has no ApproximateNumberOfMessagesVisible of ${DeadLetter.QueueName}",
        _BODY,
        _body("${DeadLetters.QueueName}", "${DeadLetter.QueueName}"),
    ),
    Mutant(
        "a widget of a metric that Lambda has not",
        guards_dashboard.dashboard_metrics,
        "AWS/Lambda has no Invocation of ${AuthFunction}",
        _BODY,
        _body('"Invocations", "FunctionName"', '"Invocation", "FunctionName"'),
    ),
    Mutant(
        "an expression over nothing",
        guards_dashboard.dashboard_expressions,
        "Sent within 10 s, percent: all is on one side alone",
        _BODY,
        _body("100 * within / sent", "100 * within / all"),
    ),
    Mutant(
        "a question without an answer",
        guards_dashboard.dashboard_answers,
        "Gate closed, unknown now, expired leases does not show UnknownNow",
        _BODY,
        _body('"UnknownNow"', '"UnknownOutcomes"'),
    ),
    Mutant(
        "an alarm that is not on the dashboard",
        guards_dashboard.dashboard_answers,
        "${GatePausedAlarm.Arn} is not among the alarms",
        _BODY,
        _body(' "${GatePausedAlarm.Arn}",', ""),
    ),
    Mutant(
        "a cost by another memory",
        guards_dashboard.dashboard_answers,
        "GB-seconds weigh sweep by 1024 MB, not 2048",
        of("SweepFunction", "MemorySize"),
        2048,
    ),
    Mutant(
        "a widget over another",
        guards_dashboard.dashboard_places,
        "Oldest due, seconds has no place of its own",
        _BODY,
        _body('"x": 8, "y": 5', '"x": 7, "y": 5'),
    ),
)
