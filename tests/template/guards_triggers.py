"""Guards over what starts the functions: schedules, retries, migrations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.template.deployment import LOGICAL_IDS, many, unhashed, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


SCHEDULES = {
    "sweep": "rate(1 minute)",
    "reaper": "rate(1 minute)",
    "retention": "cron(17 ${RetentionHour} * * ? *)",
}


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
    timeout = deployed.functions()["MigrateFunction"]["Timeout"]
    if not timeout < int(properties.get("ServiceTimeout", 3600)) <= 900:
        complaints.append("Migrations: CloudFormation must wait a little longer than the function")
    return complaints
