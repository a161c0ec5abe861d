"""Guards over what people see: logs, alarms, parameters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.metrics import DIMENSION, NAMES, NAMESPACE
from tests.template.deployment import is_kept, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


RULE_FUNCTIONS = {
    "Fn::And",
    "Fn::Contains",
    "Fn::EachMemberEquals",
    "Fn::EachMemberIn",
    "Fn::Equals",
    "Fn::If",
    "Fn::Not",
    "Fn::Or",
    "Fn::RefAll",
    "Fn::ValueOf",
    "Fn::ValueOfAll",
}

Watched: TypeAlias = tuple[str, str, str]
"""Namespace, metric, and whose it is."""

_STACK = f"{DIMENSION}=AWS::StackName"


def _ours(name: str) -> Watched:
    return (NAMESPACE, name, _STACK)


def _errors(function: str) -> Watched:
    return ("AWS/Lambda", "Errors", f"FunctionName={function}")


def _letters(queue: str) -> Watched:
    return ("AWS/SQS", "ApproximateNumberOfMessagesVisible", f"QueueName={queue}.QueueName")


_OFTEN = "Sum in 60 s >= 1, 2 of 5"
_ONCE = "Sum in 60 s >= 1, 1 of 1"
_ANY = "Maximum in 300 s > 0, 1 of 1"

# What each alarm watches, and when it rings.
ALARMS: dict[str, tuple[Watched, str]] = {
    "SweepHeartbeatAlarm": (_ours("SweepHeartbeat"), "Sum in 300 s < 1, 1 of 1"),
    "ReaperHeartbeatAlarm": (_ours("ReaperHeartbeat"), "Sum in 300 s < 1, 1 of 1"),
    "RetentionHeartbeatAlarm": (
        _ours("RetentionEndedSecondsAgo"),
        "Maximum in 300 s > 93600, 1 of 1",
    ),
    "OldestDueAlarm": (_ours("OldestDueSeconds"), "Maximum in 60 s > 300, 3 of 3"),
    "OldPendingAlarm": (_ours("OldPending"), "Maximum in 3600 s > 0, 1 of 26"),
    "GatePausedAlarm": (_ours("GatePaused"), "Maximum in 60 s > 0, 2 of 2"),
    "FailureRateAlarm": (_ours("AttemptFailed"), "Average in 60 s > 0.2, 5 of 10"),
    "UnknownOutcomesAlarm": (_ours("UnknownNow"), "Maximum in 60 s > 0, 2 of 5"),
    "WorkersLostAlarm": (_ours("WorkerLost"), "Sum in 300 s >= 1, 1 of 1"),
    "BounceRateAlarm": (_ours("HardBounced"), "Average in 3600 s > 0.04, 3 of 24"),
    "ComplaintRateAlarm": (_ours("Complained"), "Average in 3600 s > 0.001, 2 of 24"),
    "ApiErrorsAlarm": (("AWS/ApiGateway", "5xx", "ApiId=HttpApi"), _OFTEN),
    "AuthErrorsAlarm": (_errors("AuthFunction"), _OFTEN),
    "MessagesErrorsAlarm": (_errors("MessagesFunction"), _OFTEN),
    "SweepErrorsAlarm": (_errors("SweepFunction"), _OFTEN),
    "DoorbellErrorsAlarm": (_errors("DoorbellFunction"), _OFTEN),
    "DoorbellFailedAlarm": (_ours("DoorbellFailed"), "Sum in 60 s >= 1, 3 of 5"),
    "FeedbackErrorsAlarm": (_errors("FeedbackFunction"), _OFTEN),
    "FeedbackDeadLettersAlarm": (_letters("FeedbackDeadLetters"), _ANY),
    "ReaperErrorsAlarm": (_errors("ReaperFunction"), _OFTEN),
    "RetentionErrorsAlarm": (_errors("RetentionFunction"), _ONCE),
    "MigrateErrorsAlarm": (_errors("MigrateFunction"), _ONCE),
    "DeadLettersAlarm": (_letters("DeadLetters"), _ANY),
}

_SIGNS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}


# DNS records to make, and when there is something to make them for.
RECORDS = {
    "DkimRecord1": "CreatesIdentity",
    "DkimRecord2": "CreatesIdentity",
    "DkimRecord3": "CreatesIdentity",
    "DmarcRecord": "CreatesIdentity",
    "MailFromMxRecord": "HasMailFrom",
    "MailFromSpfRecord": "HasMailFrom",
}

OUTPUTS = {
    "ApiUrl",
    "SignedRoutesArn",
    "LogGroups",
    "LogsUrl",
    "AlarmsUrl",
    "DashboardUrl",
    "SesUrl",
    "ConfigurationSetName",
    "AttachmentsBucketName",
    "DatabaseSecretArn",
    "TokenKeysSecretArn",
    "PepperSecretArn",
    "FeedbackDeadLettersUrl",
    "DeadLettersUrl",
    "MigrateFunctionName",
    *RECORDS,
}


def logs(deployed: Deployment) -> list[str]:
    """Every function has a log group of its own, in JSON, and every group forgets in time."""
    groups = deployed.of_type("AWS::Logs::LogGroup")
    complaints = [
        f"{name} keeps its logs for ever"
        for name, group in groups.items()
        if written(group["Properties"].get("RetentionInDays", "")) != "LogRetentionDays"
    ]
    used: set[str] = set()
    for name, properties in deployed.functions().items():
        config = properties.get("LoggingConfig", {})
        group = written(config.get("LogGroup", ""))
        if group not in groups or group in used:
            complaints.append(f"{name} has no log group of its own")
        used.add(group)
        if config.get("LogFormat") != "JSON":
            complaints.append(f"{name} does not log JSON")
    return complaints


def watched(alarm: dict[str, Any]) -> Watched:
    """What an alarm looks at. Of an expression over several metrics it would be none of them: such
    an alarm costs more, and the emulator refuses it.
    """
    dimensions = [f"{one['Name']}={written(one['Value'])}" for one in alarm.get("Dimensions", ())]
    return (alarm.get("Namespace", ""), alarm.get("MetricName", ""), ",".join(dimensions))


def _rings(alarm: dict[str, Any]) -> tuple[str, int]:
    """When an alarm rings, in words; and how far it looks back, in seconds."""
    periods, period = alarm["EvaluationPeriods"], alarm["Period"]
    often = f"{alarm.get('DatapointsToAlarm', periods)} of {periods}"
    sign = _SIGNS[alarm["ComparisonOperator"]]
    words = f"{alarm['Statistic']} in {period} s {sign} {alarm['Threshold']}, {often}"
    return words, period * periods


def alarms(deployed: Deployment) -> list[str]:
    """Each alarm watches what the table says, speaks when it should, and reaches the topic.

    CloudWatch looks back a day at most, or a week by periods of an hour and more.
    """
    complaints: list[str] = []
    found = deployed.of_type("AWS::CloudWatch::Alarm")
    complaints.extend(f"{name} is not on the list" for name in sorted(found.keys() ^ ALARMS.keys()))
    for name in found.keys() & ALARMS.keys():
        alarm = found[name]["Properties"]
        rings, seconds = _rings(alarm)
        if (looked := watched(alarm)) != ALARMS[name][0]:
            complaints.append(f"{name} watches {looked}")
        if rings != ALARMS[name][1]:
            complaints.append(f"{name} rings at: {rings}")
        if seconds > (86_400 if alarm["Period"] < 3600 else 7 * 86_400):
            complaints.append(f"{name} looks back further than CloudWatch does")
        absence = "breaching" if alarm["MetricName"].endswith("Heartbeat") else "notBreaching"
        if alarm["TreatMissingData"] != absence:
            complaints.append(f"{name} takes silence for {alarm['TreatMissingData']}")
        if "AlarmTopicArn" not in json.dumps(alarm.get("AlarmActions", "")):
            complaints.append(f"{name} tells nobody")
        if " First: " not in alarm["AlarmDescription"]:
            complaints.append(f"{name} does not say what to do first")
    return sorted(complaints)


def custom_metrics(deployed: Deployment) -> list[str]:
    """Every metric of our own that an alarm watches is emitted, under the same dimensions."""
    complaints = []
    for name, alarm in deployed.of_type("AWS::CloudWatch::Alarm").items():
        namespace, metric, dimensions = watched(alarm["Properties"])
        if namespace == NAMESPACE and metric not in NAMES:
            complaints.append(f"{name} watches {metric}, which no code emits")
        if namespace == NAMESPACE and dimensions != _STACK:
            complaints.append(f"{name} watches {metric} under other dimensions than it has")
    return complaints


def parameters(deployed: Deployment) -> list[str]:
    """Every parameter is described, labelled, grouped, and bounded or checked by a pattern."""
    interface = deployed.source["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]
    declared = deployed.source["Parameters"]
    complaints = [f"{name} is not in one group" for name in declared if grouped.count(name) != 1]
    complaints.extend(f"{name} is grouped, not declared" for name in set(grouped) - set(declared))
    for name, parameter in declared.items():
        if not {"AllowedValues", "AllowedPattern", "MinValue"} & parameter.keys():
            complaints.append(f"{name} takes anything")
        if not interface["ParameterLabels"].get(name, {}).get("default"):
            complaints.append(f"{name} has no label")
        complaints.extend(_bounds(name, parameter))
        if not parameter.get("Description"):
            complaints.append(f"{name} is not described")
    lease = declared["LeaseSeconds"]
    if (lease.get("MinValue"), lease.get("MaxValue")) != (30, 90):
        complaints.append("LeaseSeconds is not held to 30 to 90")
    return complaints


def _bounds(name: str, parameter: dict[str, Any]) -> list[str]:
    """A number has both bounds, and its description says them and the unit."""
    if parameter["Type"] != "Number" or "AllowedValues" in parameter:
        return []
    if not {"MinValue", "MaxValue"} <= parameter.keys():
        return [f"{name} has no bounds"]
    bounds = f"{parameter['MinValue']} to {parameter['MaxValue']}"
    unit = "" if name == "DatabasePort" else "[a-z ]+, "
    if not re.search(rf"\({unit}{bounds}[,)]", parameter.get("Description", "")):
        return [f"{name} does not say (unit, {bounds})"]
    return []


def rules(deployed: Deployment) -> list[str]:
    """What CloudFormation refuses in Rules and no linter sees: most intrinsic functions."""
    declared = deployed.source.get("Rules", {})
    used = re.findall(r'"(Fn::\w+)":', json.dumps(declared))
    complaints = [f"{name} does not work in Rules" for name in sorted(set(used) - RULE_FUNCTIONS)]
    asked = {"Fn::Not": [{"Fn::Equals": [{"Ref": "MailFromDomain"}, ""]}]}
    needed = {"Fn::Equals": [{"Ref": "CreateSenderIdentity"}, "yes"]}
    if not any(
        rule.get("RuleCondition") == asked
        and needed in [one["Assert"] for one in rule["Assertions"]]
        for rule in declared.values()
    ):
        complaints.append("MailFromDomain is taken without CreateSenderIdentity")
    return complaints


def identity(deployed: Deployment) -> list[str]:
    """The sender's identity is made when asked for, kept afterwards, and its records are told."""
    resource = deployed.resources["SenderDomain"]
    mail_from = resource["Properties"].get("MailFromAttributes", {}).get("Fn::If", [None, {}])
    conditions = {
        "an existing identity is made again": resource.get("Condition") == "CreatesIdentity",
        "the identity would go with its parameter": is_kept(resource)
        and resource.get("UpdateReplacePolicy") == "Retain",
        "MailFromDomain is not the identity's": mail_from[0] == "HasMailFrom"
        and mail_from[1].get("MailFromDomain") == {"Ref": "MailFromDomain"}
        and mail_from[1].get("BehaviorOnMxFailure") == "USE_DEFAULT_VALUE",
    }
    complaints = [complaint for complaint, holds in conditions.items() if not holds]
    for name, condition in RECORDS.items():
        if deployed.source["Outputs"].get(name, {}).get("Condition") != condition:
            complaints.append(f"{name} does not depend on {condition}")
    return complaints


def outputs(deployed: Deployment) -> list[str]:
    """Whoever has deployed is told what comes next: all on the list, each with a word on it."""
    found = deployed.source["Outputs"]
    complaints = [f"{name} is not on the list" for name in sorted(found.keys() ^ OUTPUTS)]
    complaints.extend(
        f"{name} is not described" for name, one in found.items() if not one.get("Description")
    )
    return complaints
