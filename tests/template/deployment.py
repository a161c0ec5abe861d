"""`template.yaml` as CloudFormation will see it: SAM's own transform, offline.

Guards (`guards_*.py`) take a `Deployment` and answer complaints; an empty list means that the rule
holds. That a guard can complain is shown in `test_mutants.py`.
"""

from __future__ import annotations

import copy
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

ROOT = Path(__file__).parents[2]
Resource = dict[str, Any]

FUNCTIONS = ("auth", "messages", "sweep", "doorbell", "feedback", "reaper", "retention", "migrate")
LOGICAL_IDS = {name: f"{name.capitalize()}Function" for name in FUNCTIONS}

# What a person who deploys has to give: the parameters without a default.
GIVEN = {
    "FromAddress": "no-reply@example.com",
    "PublicUrl": "https://mail.example.com",
    "AllowedOrigin": "https://app.example.com",
    "DatabaseHost": "database.example.com",
    "DatabaseOwnerSecretArn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:owner-AbCdEf",
}


class _ManagedPolicies:
    """The one managed policy that SAM looks up by name."""

    def load(self) -> dict[str, str]:
        name = "AWSLambdaBasicExecutionRole"
        return {name: f"arn:aws:iam::aws:policy/service-role/{name}"}


@dataclass(frozen=True, slots=True)
class Deployment:
    """source: the file as written, Globals still apart; resources: what the transform made."""

    source: dict[str, Any]
    resources: dict[str, Resource]

    def of_type(self, kind: str) -> dict[str, Resource]:
        """The transformed resources of one type, by logical id."""
        return {name: found for name, found in self.resources.items() if found["Type"] == kind}

    def functions(self) -> dict[str, Resource]:
        """Properties of every transformed function, by logical id."""
        return {
            name: found["Properties"]
            for name, found in self.of_type("AWS::Lambda::Function").items()
        }

    def parameter(self, name: str, given: dict[str, str]) -> str | None:
        """What a !Ref to the parameter yields, or None when name is no parameter."""
        declared = self.source["Parameters"].get(name)
        if declared is None:
            return None
        return given.get(name) or str(declared.get("Default", ""))

    def environment(self, function: str, **parameters: str) -> dict[str, str]:
        """The function's variables as Lambda sets them; a resource is its logical id."""
        given = GIVEN | parameters
        variables = self.functions()[function].get("Environment", {}).get("Variables", {})
        found = {}
        for name, value in variables.items():
            if isinstance(value, dict):
                reference = value["Ref"]
                if reference == "AWS::NoValue":
                    continue
                parameter = self.parameter(reference, given)
                found[name] = f"ref:{reference}" if parameter is None else parameter
            else:
                found[name] = value
        return found

    def code_folder(self, function: str) -> Path:
        """The folder that CodeUri names."""
        properties = self.source["Resources"][function]["Properties"]
        return ROOT / str(properties["CodeUri"])


def source() -> dict[str, Any]:
    """The template as written."""
    parsed: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text("utf-8"))
    return parsed


def deployment(template: dict[str, Any]) -> Deployment:
    """template after the transform; it is left as it is."""
    packaged = copy.deepcopy(template)
    places = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}
    for resource in packaged["Resources"].values():
        if place := places.get(resource["Type"]):
            resource["Properties"][place] = "s3://bucket/key"
    transformed = transform(packaged, dict(GIVEN), _ManagedPolicies())
    return Deployment(source=template, resources=transformed["Resources"])


def written(value: Any) -> str:
    """A reference in short: `Ref` as the name, `GetAtt` as name.attribute, `Sub` as its text."""
    if isinstance(value, dict) and len(value) == 1:
        [(kind, inner)] = value.items()
        if kind in {"Ref", "Fn::Sub"} and isinstance(inner, str):
            return inner
        if kind == "Fn::GetAtt":
            return ".".join(inner)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def many(value: Any) -> list[Any]:
    """value as a list: IAM and CloudFormation take one where they take several."""
    return value if isinstance(value, list) else [value]


def unhashed(logical_id: str) -> str:
    """A layer's logical id without the digest of its content that SAM appends."""
    return re.sub(r"[0-9a-f]{10}$", "", logical_id)


def is_kept(resource: Resource) -> bool:
    """Whether it outlives its stack; what a failed first deployment made may go."""
    return resource.get("DeletionPolicy") in {"Retain", "RetainExceptOnCreate"}
