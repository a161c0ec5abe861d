"""Guards over what people see: logs, alarms, parameters."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.template.deployment import ROOT, is_kept, written
from tests.template.guards_settings import POWERTOOLS

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

ALARMS = {
    "SweepHeartbeatAlarm": ("AWS/Lambda", "Invocations", "SweepFunction"),
    "ReaperHeartbeatAlarm": ("AWS/Lambda", "Invocations", "ReaperFunction"),
    "OldestDueAlarm": ("Postlease", "OldestDueSeconds", "postlease"),
    "GatePausedAlarm": ("Postlease", "GatePaused", "postlease"),
    "ApiErrorsAlarm": ("AWS/ApiGateway", "5xx", "HttpApi"),
    "MessagesErrorsAlarm": ("AWS/Lambda", "Errors", "MessagesFunction"),
    "AuthErrorsAlarm": ("AWS/Lambda", "Errors", "AuthFunction"),
    "SweepErrorsAlarm": ("AWS/Lambda", "Errors", "SweepFunction"),
    "DoorbellErrorsAlarm": ("AWS/Lambda", "Errors", "DoorbellFunction"),
    "DoorbellFailedAlarm": ("Postlease", "DoorbellFailed", "postlease"),
    "FeedbackErrorsAlarm": ("AWS/Lambda", "Errors", "FeedbackFunction"),
    "FeedbackDeadLettersAlarm": (
        "AWS/SQS",
        "ApproximateNumberOfMessagesVisible",
        "FeedbackDeadLetters.QueueName",
    ),
    "ReaperErrorsAlarm": ("AWS/Lambda", "Errors", "ReaperFunction"),
    "RetentionErrorsAlarm": ("AWS/Lambda", "Errors", "RetentionFunction"),
    "MigrateErrorsAlarm": ("AWS/Lambda", "Errors", "MigrateFunction"),
    "DeadLettersAlarm": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "DeadLetters.QueueName"),
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


def _watched(alarm: dict[str, Any]) -> tuple[str, str, str]:
    dimensions = ",".join(written(dimension["Value"]) for dimension in alarm["Dimensions"])
    return (alarm["Namespace"], alarm["MetricName"], dimensions)


def alarms(deployed: Deployment) -> list[str]:
    """Each alarm watches what the table says, speaks when it should, and reaches the topic."""
    complaints: list[str] = []
    found = deployed.of_type("AWS::CloudWatch::Alarm")
    complaints.extend(f"{name} is not on the list" for name in sorted(found.keys() ^ ALARMS.keys()))
    for name in found.keys() & ALARMS.keys():
        alarm = found[name]["Properties"]
        if _watched(alarm) != ALARMS[name]:
            complaints.append(f"{name} watches {_watched(alarm)}")
        absence = "breaching" if "Heartbeat" in name else "notBreaching"
        if alarm["TreatMissingData"] != absence:
            complaints.append(f"{name} takes silence for {alarm['TreatMissingData']}")
        if "AlarmTopicArn" not in json.dumps(alarm.get("AlarmActions", "")):
            complaints.append(f"{name} tells nobody")
    return sorted(complaints)


def custom_metrics(deployed: Deployment) -> list[str]:
    """Every metric of our own that an alarm watches is one that the code emits."""
    folders = (ROOT / "layers" / "postlease" / "python", ROOT / "functions")
    code = [path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")]
    return [
        f"{name} watches {metric}, which no code emits"
        for name, alarm in deployed.of_type("AWS::CloudWatch::Alarm").items()
        for namespace, metric, _ in [_watched(alarm["Properties"])]
        if namespace == POWERTOOLS["POWERTOOLS_METRICS_NAMESPACE"]
        and not any(f'"{metric}"' in text for text in code)
    ]


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
