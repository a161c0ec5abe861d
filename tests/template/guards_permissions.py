"""Guards over who may do what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.template.deployment import many, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


_IDENTITIES = "arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:identity/*"

_CONFIGURATION_SET = (
    "arn:${AWS::Partition}:ses:${AWS::Region}:${AWS::AccountId}:"
    "configuration-set/${ConfigurationSet}"
)

_ATTACHMENTS = "${AttachmentsBucket.Arn}/attachments/*"

_UPLOADS = "${AttachmentsBucket.Arn}/attachments/uploads/*"

_FROM = json.dumps(
    {
        "StringEquals": {
            "ses:FromAddress": {
                "Fn::If": [
                    "AllowsSenders",
                    {"Fn::Split": [",", {"Fn::Sub": "${FromAddress},${AllowedSenders}"}]},
                    {"Ref": "FromAddress"},
                ]
            }
        }
    }
)

Permission = tuple[str, str, str]
"""Action, resource, condition; the last is empty when there is none."""

_DEAD_LETTERS: Permission = ("sqs:SendMessage", "DeadLetters.Arn", "")


def _read(*secrets: str) -> set[Permission]:
    return {("secretsmanager:GetSecretValue", secret, "") for secret in secrets}


def _consume(queue: str) -> set[Permission]:
    actions = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
    return {(action, f"{queue}.Arn", "") for action in actions}


def _scheduled(function: str) -> set[Permission]:
    return {("lambda:InvokeFunction", f"{function}.Arn", ""), _DEAD_LETTERS}


_DELIVER: set[Permission] = {
    *_read("DatabaseSecret", "TokenKeysSecret", "PepperSecret"),
    ("s3:GetObject", _ATTACHMENTS, ""),
    ("s3:GetObjectVersion", _ATTACHMENTS, ""),
    ("s3:ListBucket", "AttachmentsBucket.Arn", ""),
    ("ses:SendEmail", _IDENTITIES, _FROM),
    ("ses:SendEmail", _CONFIGURATION_SET, _FROM),
    ("ses:SendRawEmail", _IDENTITIES, _FROM),
    ("ses:SendRawEmail", _CONFIGURATION_SET, _FROM),
    ("ses:GetAccount", "*", ""),
}

SENDERS = {"SweepFunctionRole", "DoorbellFunctionRole"}

PERMISSIONS: dict[str, set[Permission]] = {
    "AuthFunctionRole": {
        *_read("DatabaseSecret", "TokenKeysSecret", "PepperSecret"),
        ("sqs:SendMessage", "DoorbellQueue.Arn", ""),
    },
    "MessagesFunctionRole": {
        *_read("DatabaseSecret", "TokenKeysSecret", "PepperSecret"),
        ("sqs:SendMessage", "DoorbellQueue.Arn", ""),
        ("s3:GetObject", _ATTACHMENTS, ""),
        ("s3:GetObjectVersion", _ATTACHMENTS, ""),
        ("s3:ListBucket", "AttachmentsBucket.Arn", ""),
        ("s3:PutObject", _UPLOADS, ""),
    },
    "SweepFunctionRole": {*_DELIVER, _DEAD_LETTERS},
    "DoorbellFunctionRole": {*_DELIVER, *_consume("DoorbellQueue")},
    "FeedbackFunctionRole": {
        *_read("DatabaseSecret", "PepperSecret"),
        *_consume("FeedbackQueue"),
    },
    "ReaperFunctionRole": {*_read("DatabaseSecret"), _DEAD_LETTERS},
    "RetentionFunctionRole": {
        *_read("DatabaseSecret"),
        ("s3:DeleteObject", _ATTACHMENTS, ""),
        ("s3:DeleteObjectVersion", _ATTACHMENTS, ""),
        _DEAD_LETTERS,
    },
    "MigrateFunctionRole": {*_read("DatabaseOwnerSecretArn", "DatabaseSecret"), _DEAD_LETTERS},
    "SweepFunctionScheduleRole": _scheduled("SweepFunction"),
    "ReaperFunctionScheduleRole": _scheduled("ReaperFunction"),
    "RetentionFunctionScheduleRole": _scheduled("RetentionFunction"),
}

# Logs, traces and, inside a VPC, network interfaces: what SAM gives every function.
MANAGED = {
    "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole",
    "arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole",
    "arn:aws:iam::aws:policy/AWSXrayWriteOnlyAccess",
}

WILDCARDS = {_ATTACHMENTS, _UPLOADS, _IDENTITIES}

WITHOUT_RESOURCE = {"ses:GetAccount"}
"""Actions that IAM knows no resource for."""


def _statements(role: dict[str, Any]) -> list[dict[str, Any]]:
    policies = role["Properties"].get("Policies", [])
    return [one for policy in policies for one in many(policy["PolicyDocument"]["Statement"])]


def granted(deployed: Deployment) -> dict[str, set[Permission]]:
    """Every role's permissions, one by one."""
    found: dict[str, set[Permission]] = {}
    for name, role in deployed.of_type("AWS::IAM::Role").items():
        found[name] = {
            (
                action,
                written(resource),
                json.dumps(one["Condition"], sort_keys=True) if "Condition" in one else "",
            )
            for one in _statements(role)
            if one["Effect"] == "Allow"
            for action in many(one.get("Action", "NotAction"))
            for resource in many(one.get("Resource", "NotResource"))
        }
    return found


def permissions(deployed: Deployment) -> list[str]:
    """Who may do what is exactly what the table above says."""
    found = granted(deployed)
    complaints = [
        f"{role}: {'may' if extra else 'may not'} {permission}"
        for role in sorted(found.keys() | PERMISSIONS.keys())
        for permission in sorted(found.get(role, set()) ^ PERMISSIONS.get(role, set()))
        for extra in [permission in found.get(role, set())]
    ]
    for name, role in deployed.of_type("AWS::IAM::Role").items():
        attached = set(map(written, role["Properties"].get("ManagedPolicyArns", [])))
        wanted = set() if name.endswith("ScheduleRole") else MANAGED
        complaints.extend(f"{name}: managed policy {arn}" for arn in sorted(attached ^ wanted))
    return complaints


def senders(deployed: Deployment) -> list[str]:
    """Only sweep and doorbell may send, and only from the configured addresses."""
    complaints = []
    for role, allowed in granted(deployed).items():
        for action, resource, condition in sorted(allowed):
            if action.startswith("ses:") and role not in SENDERS:
                complaints.append(f"{role}: may {action} on {resource}")
            if action.startswith("ses:Send") and condition != _FROM:
                complaints.append(f"{role}: {action} from any address")
    return complaints


def wildcards(deployed: Deployment) -> list[str]:
    """No action holds a wildcard, and no resource but those on the list."""
    return [
        f"{role}: {action} on {resource}"
        for role, allowed in granted(deployed).items()
        for action, resource, _ in sorted(allowed)
        if "*" in action
        or action == "NotAction"
        or resource == "NotResource"
        or ("*" in resource and resource not in WILDCARDS and action not in WITHOUT_RESOURCE)
    ]
