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

_ARCHIVE = "${AttachmentsBucket.Arn}/archive/*"

_OWN_LISTS = json.dumps({"StringLike": {"s3:prefix": ["attachments/uploads/", "archive/*"]}})

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

_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)

_FUNCTIONS = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:*"
_OWN_CODE = json.dumps({"ArnLike": {"lambda:SourceFunctionArn": {"Fn::Sub": _FUNCTIONS}}})

Permission = tuple[str, str, str]
"""Action, resource, condition; the last is empty when there is none."""

_DEAD_LETTERS: Permission = ("sqs:SendMessage", "DeadLetters.Arn", "")


def _read(*secrets: str) -> set[Permission]:
    return {("secretsmanager:GetSecretValue", secret, "") for secret in secrets}


def _consume(queue: str) -> set[Permission]:
    actions = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
    return {(action, f"{queue}.Arn", "") for action in actions}


def _logs(group: str) -> set[Permission]:
    return {
        (f"logs:{action}", f"{group}.Arn", "") for action in ("CreateLogStream", "PutLogEvents")
    }


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
        *_logs("AuthLogs"),
    },
    "MessagesFunctionRole": {
        *_read("DatabaseSecret", "TokenKeysSecret", "PepperSecret"),
        ("sqs:SendMessage", "DoorbellQueue.Arn", ""),
        ("s3:GetObject", _ATTACHMENTS, ""),
        ("s3:GetObjectVersion", _ATTACHMENTS, ""),
        ("s3:ListBucket", "AttachmentsBucket.Arn", ""),
        ("s3:PutObject", _UPLOADS, ""),
        *_logs("MessagesLogs"),
    },
    "SweepFunctionRole": {*_DELIVER, _DEAD_LETTERS, *_logs("SweepLogs")},
    "DoorbellFunctionRole": {*_DELIVER, *_consume("DoorbellQueue"), *_logs("DoorbellLogs")},
    "FeedbackFunctionRole": {
        *_read("DatabaseSecret", "PepperSecret"),
        *_consume("FeedbackQueue"),
        *_logs("FeedbackLogs"),
    },
    "ReaperFunctionRole": {*_read("DatabaseSecret"), _DEAD_LETTERS, *_logs("ReaperLogs")},
    "RetentionFunctionRole": {
        *_read("DatabaseSecret"),
        ("s3:DeleteObject", _ATTACHMENTS, ""),
        ("s3:DeleteObjectVersion", _ATTACHMENTS, ""),
        ("s3:PutObject", _ARCHIVE, ""),
        ("s3:GetObjectVersion", _ARCHIVE, ""),
        ("s3:DeleteObjectVersion", _ARCHIVE, ""),
        ("s3:ListBucketVersions", "AttachmentsBucket.Arn", _OWN_LISTS),
        _DEAD_LETTERS,
        *_logs("RetentionLogs"),
    },
    "MigrateFunctionRole": {
        *_read("DatabaseOwnerSecretArn", "DatabaseSecret"),
        _DEAD_LETTERS,
        *_logs("MigrateLogs"),
    },
    "SweepFunctionScheduleRole": _scheduled("SweepFunction"),
    "ReaperFunctionScheduleRole": _scheduled("ReaperFunction"),
    "RetentionFunctionScheduleRole": _scheduled("RetentionFunction"),
    "NetworkPolicy": {(action, "*", "") for action in _INTERFACES},
    "TracesPolicy": {
        ("xray:PutTraceSegments", "*", ""),
        ("xray:PutTelemetryRecords", "*", ""),
    },
}
"""By role, and by policy of the stack's own that every function's role has under a condition."""

DENIED: dict[str, set[Permission]] = {
    "NetworkPolicy": {(action, "*", _OWN_CODE) for action in _INTERFACES}
}

MANAGED = {
    "NetworkPolicy": "InVpc",
    "TracesPolicy": "IsTraced",
}
"""Policy and the condition under which it is made and attached. AWS's own are nowhere."""

WILDCARDS = {_ARCHIVE, _ATTACHMENTS, _UPLOADS, _IDENTITIES}

WITHOUT_RESOURCE = {
    "ses:GetAccount",
    *_INTERFACES,
    *(one[0] for one in PERMISSIONS["TracesPolicy"]),
}
"""Actions that IAM knows no resource for, or none before Lambda needs them."""


_LAMBDA = {
    "Effect": "Allow",
    "Principal": {"Service": "lambda.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
# The service acts for every account: only for ours with our role.
_SCHEDULER = {
    "Effect": "Allow",
    "Principal": {"Service": "scheduler.amazonaws.com"},
    "Action": "sts:AssumeRole",
    "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
}


def _statements(resource: dict[str, Any]) -> list[dict[str, Any]]:
    properties = resource["Properties"]
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
    documents += [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
    return [one for document in documents for one in many(document["Statement"])]


def granted(deployed: Deployment, effect: str = "Allow") -> dict[str, set[Permission]]:
    """The permissions of every role and of every managed policy of the stack, one by one."""
    holders = deployed.of_type("AWS::IAM::Role") | deployed.of_type("AWS::IAM::ManagedPolicy")
    return {
        name: {
            (
                action,
                written(resource),
                json.dumps(one["Condition"], sort_keys=True) if "Condition" in one else "",
            )
            for one in _statements(holder)
            if one["Effect"] == effect
            for action in many(one.get("Action", "NotAction"))
            for resource in many(one.get("Resource", "NotResource"))
        }
        for name, holder in holders.items()
    }


def permissions(deployed: Deployment) -> list[str]:
    """Who may do what, and under which condition, is exactly what the tables above say."""
    found = granted(deployed)
    complaints = [
        f"{role}: {'may' if extra else 'may not'} {permission}"
        for role in sorted(found.keys() | PERMISSIONS.keys())
        for permission in sorted(found.get(role, set()) ^ PERMISSIONS.get(role, set()))
        for extra in [permission in found.get(role, set())]
    ]
    denied = granted(deployed, "Deny")
    complaints.extend(
        f"{name}: denied is {permission}"
        for name in sorted(denied)
        for permission in sorted(denied[name] ^ DENIED.get(name, set()))
    )
    given = {
        json.dumps({"Fn::If": [condition, {"Ref": name}, {"Ref": "AWS::NoValue"}]})
        for name, condition in MANAGED.items()
    }
    for name, role in deployed.of_type("AWS::IAM::Role").items():
        attached = set(map(written, role["Properties"].get("ManagedPolicyArns", [])))
        wanted = set() if name.endswith("ScheduleRole") else given
        complaints.extend(f"{name}: managed policy {arn}" for arn in sorted(attached ^ wanted))
    complaints.extend(
        f"{name}: is there although {condition} may be false"
        for name, condition in MANAGED.items()
        if deployed.resources.get(name, {}).get("Condition") != condition
    )
    return complaints


def roles(deployed: Deployment) -> list[str]:
    """Each function has a role of its own, which nobody but Lambda takes on; schedules theirs."""
    complaints = [
        f"{name}: runs as {written(properties['Role'])}"
        for name, properties in deployed.functions().items()
        if written(properties["Role"]) != f"{name}Role.Arn"
    ]
    for name, role in deployed.of_type("AWS::IAM::Role").items():
        trust = _SCHEDULER if name.endswith("ScheduleRole") else _LAMBDA
        trusted = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        if trusted != [trust]:
            complaints.append(f"{name}: is taken on by {trusted}")
    for name, schedule in deployed.of_type("AWS::Scheduler::Schedule").items():
        if written(schedule["Properties"]["Target"]["RoleArn"]) != f"{name}Role.Arn":
            complaints.append(f"{name}: has another role")
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
