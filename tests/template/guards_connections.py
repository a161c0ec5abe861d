"""Guards over the connections to the database: how many all functions together open."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from postlease.delivery import Connections
from tests.template.deployment import FUNCTIONS, LOGICAL_IDS

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


CONNECTIONS = {
    "auth": 1,
    "messages": 1,
    "sweep": 3,
    "doorbell": 3,
    "feedback": 1,
    "reaper": 1,
    "retention": 1,
    "migrate": 1,
}
"""What one environment of the function keeps: one for each use (`database.application`)."""

AT_ONCE: dict[str, tuple[str, str | int]] = {
    "auth": ("reserved", "ApiConcurrency"),
    "messages": ("reserved", "ApiConcurrency"),
    "sweep": ("reserved", 2),
    "doorbell": ("source", "DoorbellConcurrency"),
    "feedback": ("source", 2),
    "reaper": ("reserved", 1),
    "retention": ("reserved", 1),
    "migrate": ("deploys", 1),
}
"""How many environments run at a time with Stage=prod, and what bounds them.

A number, or the parameter that it is. CloudFormation deploys a stack once at a time.
"""

# PostgreSQL's own default is 100, Aurora Serverless v2 has 189 at its least; both keep three of
# them for superusers.
PLAIN = 100 - 3
AURORA = 189 - 3


def connections(deployed: Deployment) -> list[str]:
    """Every function is bounded in prod, and the sum leaves room for producers.

    A deployment may double it: environments of the old code keep theirs until Lambda ends them or
    the server does, after fifteen idle minutes.
    """
    complaints = []
    for name in FUNCTIONS:
        found = _bound(deployed, name)
        kind, wanted = AT_ONCE[name]
        if found != (kind, wanted):
            complaints.append(f"{LOGICAL_IDS[name]}: {_reason(kind, found)}")
        opened = _opened(deployed, name)
        if opened != CONNECTIONS[name]:
            complaints.append(f"{LOGICAL_IDS[name]}: an environment keeps {opened}")
    total = summed(deployed)
    if not total < PLAIN:
        complaints.append(f"the stack opens {total} of {PLAIN} connections")
    if not 2 * total < AURORA:
        complaints.append(f"a deployment opens {2 * total} of {AURORA} connections")
    return complaints


def summed(deployed: Deployment) -> int:
    """The connections of a stack in prod with the parameters' defaults."""
    declared = deployed.source["Parameters"]
    return sum(
        CONNECTIONS[name] * (int(declared[bound]["Default"]) if isinstance(bound, str) else bound)
        for name, (_, bound) in AT_ONCE.items()
    )


def _bound(deployed: Deployment, name: str) -> tuple[str, Any]:
    """What bounds the function's environments in the transformed template, and at what."""
    function = LOGICAL_IDS[name]
    reserved = deployed.functions()[function].get("ReservedConcurrentExecutions")
    if isinstance(reserved, dict):
        condition, bound, otherwise = reserved["Fn::If"]
        if (condition, otherwise) != ("IsProd", {"Ref": "AWS::NoValue"}):
            return "always", reserved
        return "reserved", bound["Ref"] if isinstance(bound, dict) else bound
    if reserved is not None:
        return "always", reserved
    for source in deployed.of_type("AWS::Lambda::EventSourceMapping").values():
        if source["Properties"]["FunctionName"] == {"Ref": function}:
            bound = source["Properties"].get("ScalingConfig", {}).get("MaximumConcurrency")
            return "source", bound["Ref"] if isinstance(bound, dict) else bound
    return "deploys" if name == "migrate" else "nothing", 1


def _reason(kind: str, found: tuple[str, Any]) -> str:
    if found[0] == "always":
        return "is reserved outside prod"
    return f"is bounded by {found}" if found[0] == kind else "has no bound in prod"


def _opened(deployed: Deployment, name: str) -> int:
    """How many uses of the database the function's code names; a run has uses of its own."""
    code = (deployed.code_folder(LOGICAL_IDS[name]) / "app.py").read_text("utf-8")
    uses = len(set(re.findall(r"database\.(?:application|owner)\([^)]*\)", code)))
    return uses + (len(fields(Connections)) if "Connections.kept()" in code else 0)
