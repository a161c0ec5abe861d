"""Guards over who else may come in: by a kind of resource, an invocation, a policy of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.template.deployment import written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


KINDS = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Events::Rule",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
    "AWS::SES::ConfigurationSet",
    "AWS::SES::ConfigurationSetEventDestination",
    "AWS::SES::EmailIdentity",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
    "AWS::SecretsManager::Secret",
    "Custom::Migrations",
}
"""Types of resources that a guard looks at, or that let nobody in."""

_API = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:"
_OURS = {"Ref": "HttpApi"}


def kinds(deployed: Deployment) -> list[str]:
    """The stack is made of listed kinds: another may grant, publish or keep what nobody looks at.

    A policy that is attached from outside its role, a function's URL, a secret's policy.
    """
    return [
        f"{name} is an {found['Type']}"
        for name, found in sorted(deployed.resources.items())
        if found["Type"] not in KINDS
    ]


def invokers(deployed: Deployment) -> list[str]:
    """Nobody may call a function but our API; schedules and queues do it by roles."""
    complaints = []
    for name, permission in deployed.of_type("AWS::Lambda::Permission").items():
        properties = permission["Properties"]
        if properties["Principal"] != "apigateway.amazonaws.com":
            complaints.append(f"{name} lets {properties['Principal']} call a function")
        source = properties.get("SourceArn")
        text, names = source["Fn::Sub"] if isinstance(source, dict) else (source or "", {})
        if not text.startswith(f"{_API}${{__ApiId__}}/") or names["__ApiId__"] != _OURS:
            complaints.append(f"{name} lets {text} call a function")
    return complaints


def grants(deployed: Deployment) -> list[str]:
    """The bucket's policy only denies; who may read or write there, the roles say."""
    return [
        f"{name} allows {written(one['Action'])}"
        for name, policy in deployed.of_type("AWS::S3::BucketPolicy").items()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if one["Effect"] != "Deny"
    ]
