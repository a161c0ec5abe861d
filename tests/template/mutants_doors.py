"""Templates with one more way in."""

from __future__ import annotations

from tests.template import guards_doors
from tests.template.mutant import Mutant, of

_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*"}]}

MUTANTS = [
    Mutant(
        "a policy that is attached from outside its role",
        guards_doors.kinds,
        "More is an AWS::IAM::RolePolicy",
        ("Resources", "More"),
        {
            "Type": "AWS::IAM::RolePolicy",
            "Properties": {
                "PolicyName": "more",
                "RoleName": {"Ref": "AuthFunctionRole"},
                "PolicyDocument": _POLICY,
            },
        },
    ),
    Mutant(
        "a function with a URL of its own",
        guards_doors.kinds,
        "MigrateFunctionUrl is an AWS::Lambda::Url",
        of("MigrateFunction", "FunctionUrlConfig"),
        {"AuthType": "NONE"},
    ),
    Mutant(
        "a secret that others may read",
        guards_doors.kinds,
        "Shared is an AWS::SecretsManager::ResourcePolicy",
        ("Resources", "Shared"),
        {
            "Type": "AWS::SecretsManager::ResourcePolicy",
            "Properties": {"SecretId": {"Ref": "PepperSecret"}, "ResourcePolicy": _POLICY},
        },
    ),
    Mutant(
        "a function that anybody may call",
        guards_doors.invokers,
        "Anybody lets * call a function",
        ("Resources", "Anybody"),
        {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Ref": "SweepFunction"},
                "Principal": "*",
            },
        },
    ),
    Mutant(
        "a function that every API may call",
        guards_doors.invokers,
        "lets arn:aws:execute-api:*:*:* call a function",
        ("Resources", "Every"),
        {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Ref": "SweepFunction"},
                "Principal": "apigateway.amazonaws.com",
                "SourceArn": "arn:aws:execute-api:*:*:*",
            },
        },
    ),
    Mutant(
        "a bucket that another account may read",
        guards_doors.grants,
        "AttachmentsBucketPolicy allows s3:GetObject",
        of("AttachmentsBucketPolicy", "PolicyDocument", "Statement", 2),
        {
            "Effect": "Allow",
            "Principal": {"AWS": "210987654321"},
            "Action": "s3:GetObject",
            "Resource": {"Fn::Sub": "${AttachmentsBucket.Arn}/*"},
        },
    ),
]
