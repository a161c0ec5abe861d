"""Guards over what starts the functions: schedules, queues, retries, migrations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from postlease.providers.ses_events import STATUS
from tests.template.deployment import LOGICAL_IDS, many, unhashed, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


SCHEDULES = {
    "sweep": "rate(1 minute)",
    "reaper": "rate(1 minute)",
    "retention": "cron(17 ${RetentionHour} * * ? *)",
}


# Function, dead letters, and how often a message is heard at most.
QUEUES = {
    "DoorbellQueue": ("doorbell", "DeadLetters.Arn", 5),
    "FeedbackQueue": ("feedback", "FeedbackDeadLetters.Arn", 50),
}

# Events of SES by rule: all of our configuration set's mail, and what the account may do.
_OURS = {"source": ["aws.ses"], "account": [{"Ref": "AWS::AccountId"}]}
RULES = {
    "FeedbackRule": _OURS
    | {"detail": {"mail": {"tags": {"ses:configuration-set": [{"Ref": "ConfigurationSet"}]}}}},
    "SendingStatusRule": _OURS | {"detail-type": sorted(STATUS)},
}
SES_EVENTS = {"send", "delivery", "deliveryDelay", "bounce", "complaint", "reject"}


def schedules(deployed: Deployment) -> list[str]:
    """Sweep, reaper and retention run by themselves, at the rates of the design."""
    found = {
        written(schedule["Properties"]["Target"]["Arn"]): schedule["Properties"]
        for schedule in deployed.of_type("AWS::Scheduler::Schedule").values()
    }
    wanted = {f"{LOGICAL_IDS[name]}.Arn" for name in SCHEDULES}
    complaints = [f"schedules are {sorted(found)}"] if set(found) != wanted else []
    for name, expression in SCHEDULES.items():
        properties = found.get(f"{LOGICAL_IDS[name]}.Arn", {})
        if written(properties.get("ScheduleExpression", "")) != expression:
            complaints.append(f"{name}: runs at {properties.get('ScheduleExpression')}")
        if properties.get("State", "ENABLED") != "ENABLED":
            complaints.append(f"{name}: the schedule is off")
    return complaints


def queues(deployed: Deployment) -> list[str]:
    """A queue waits long enough for its function, hears what failed, and gives up in time."""
    complaints = []
    found = {
        written(source["Properties"]["EventSourceArn"]).removesuffix(".Arn"): source["Properties"]
        for source in deployed.of_type("AWS::Lambda::EventSourceMapping").values()
    }
    if set(found) != set(QUEUES):
        complaints.append(f"queues that start a function are {sorted(found)}")
    for queue in found.keys() & QUEUES.keys():
        source, properties = found[queue], deployed.resources[queue]["Properties"]
        function = written(source["FunctionName"])
        name, dead_letters, most_receives = QUEUES[queue]
        if function != LOGICAL_IDS[name]:
            complaints.append(f"{queue}: starts {function}")
            continue
        timeout = deployed.functions()[function]["Timeout"]
        visibility = properties.get("VisibilityTimeout", 30)
        redrive = properties.get("RedrivePolicy", {})
        receives = redrive.get("maxReceiveCount", 0)
        most = source.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
        bounds = deployed.source["Parameters"].get(written(most), {})
        least = most if isinstance(most, int) else bounds.get("MinValue", 0)
        conditions = {
            "is heard again while it is answered": visibility >= 6 * timeout,
            "has no dead letters": written(redrive.get("deadLetterTargetArn", "")) == dead_letters,
            "rings without end, or once": 2 <= receives <= most_receives,
            "forgets before it gives up": properties.get("MessageRetentionPeriod", 0)
            > receives * visibility,
            "repeats a batch for one of it": source.get("FunctionResponseTypes")
            == ["ReportBatchItemFailures"],
            "waits for a batch": source.get("MaximumBatchingWindowInSeconds", 0) == 0,
            "brings more than ten": source.get("BatchSize", 10) <= 10,
            "starts any number at once": least >= 2 and (least == most or "MaxValue" in bounds),
        }
        complaints.extend(f"{queue}: {one}" for one, holds in conditions.items() if not holds)
    return complaints


def events(deployed: Deployment) -> list[str]:
    """SES tells what becomes of our mail, and our rules bring it to the feedback queue."""
    complaints = []
    found = {
        name: rule["Properties"] for name, rule in deployed.of_type("AWS::Events::Rule").items()
    }
    if set(found) != set(RULES):
        complaints.append(f"rules are {sorted(found)}")
    for name in found.keys() & RULES.keys():
        pattern = dict(found[name]["EventPattern"])
        if "detail-type" in pattern:
            pattern["detail-type"] = sorted(pattern["detail-type"])
        if pattern != RULES[name]:
            complaints.append(f"{name}: takes {pattern}")
        if [written(target["Arn"]) for target in found[name]["Targets"]] != ["FeedbackQueue.Arn"]:
            complaints.append(f"{name}: brings its events elsewhere")
        if found[name].get("State", "ENABLED") != "ENABLED":
            complaints.append(f"{name}: is off")
    told = [
        destination["Properties"]["EventDestination"]
        for destination in deployed.of_type("AWS::SES::ConfigurationSetEventDestination").values()
        if written(destination["Properties"]["ConfigurationSetName"]) == "ConfigurationSet"
        and written(
            destination["Properties"]["EventDestination"]
            .get("EventBridgeDestination", {})
            .get("EventBusArn", "")
        ).endswith(":event-bus/default")
    ]
    kinds = {kind for one in told if one.get("Enabled") for kind in one["MatchingEventTypes"]}
    if kinds != SES_EVENTS:
        complaints.append(f"SES tells {sorted(kinds)}")
    return complaints


def retries(deployed: Deployment) -> list[str]:
    """Neither the schedule nor Lambda repeats an invocation: the next tick is the retry."""
    complaints = []
    for name, schedule in deployed.of_type("AWS::Scheduler::Schedule").items():
        policy = schedule["Properties"]["Target"].get("RetryPolicy", {})
        if policy != {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}:
            complaints.append(f"{name}: retry policy {policy}")
    configured = {
        written(config["Properties"]["FunctionName"]): config["Properties"]
        for config in deployed.of_type("AWS::Lambda::EventInvokeConfig").values()
    }
    for name in ("sweep", "reaper", "retention", "migrate"):
        properties = configured.get(LOGICAL_IDS[name], {})
        if properties.get("MaximumRetryAttempts") != 0:
            complaints.append(f"{name}: Lambda retries {properties.get('MaximumRetryAttempts')}")
        if properties.get("MaximumEventAgeInSeconds") != 60:
            complaints.append(f"{name}: an event may be {properties} old")
    return complaints


def migrations(deployed: Deployment) -> list[str]:
    """sql/ reaches the database before any function of the new code, and on each of its changes."""
    complaints = []
    for name, function in deployed.of_type("AWS::Lambda::Function").items():
        if ("Migrations" in many(function.get("DependsOn", []))) != (name != "MigrateFunction"):
            complaints.append(f"{name}: depends on {function.get('DependsOn')}")
    properties = deployed.resources["Migrations"]["Properties"]
    if written(properties["ServiceToken"]) != "MigrateFunction.Arn":
        complaints.append("Migrations: another function answers")
    if unhashed(written(properties.get("SqlLayer", ""))) != "SqlLayer":
        complaints.append("Migrations: a changed sql/ would not run")
    complaints.extend(
        f"Migrations: a changed {parameter} would leave the old password"
        for parameter in deployed.source["Parameters"]
        if parameter.startswith("Database") and parameter not in json.dumps(properties)
    )
    told = {
        written(value)
        for function in deployed.functions().values()
        for value in function["Environment"]["Variables"].values()
    }
    settings = {written(one) for one in properties.get("Settings", [])}
    complaints.extend(
        f"Migrations: a wrong {parameter} would reach the functions unread"
        for parameter in sorted((told & deployed.source["Parameters"].keys()) - settings)
        if parameter != "DatabaseOwnerSecretArn"
    )
    timeout = deployed.functions()["MigrateFunction"]["Timeout"]
    if not timeout < int(properties.get("ServiceTimeout", 3600)) <= 900:
        complaints.append("Migrations: CloudFormation must wait a little longer than the function")
    return complaints
