"""What a template declares beside its functions, made in the emulated AWS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from local.aws import generated_secret, queue_arn
from local.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from local.aws import Aws

_APPLICATION_ROLE = "postlease_application"


def make(
    aws: Aws, path: Path, parameters: Mapping[str, str], *, password: str, senders: Iterable[str]
) -> tuple[Template, dict[str, str]]:
    """Make all of it; return the template with local names, and the URL of each queue by its ARN.

    password is the one that the application's role gets; senders are taken as verified.
    """
    plain = Template(path, parameters=parameters)
    names = {
        **_secrets(aws, plain, password),
        **_buckets(aws, plain),
        **_configuration_sets(aws, plain),
    }
    # A malformed one stops the first function.
    for sender in set(map(str.strip, senders)) - {""}:
        aws.verify_sender(sender)
    queue_urls = {}
    for logical_id, properties in plain.of_type("AWS::SQS::Queue").items():
        arn = names[f"{logical_id}.Arn"] = queue_arn(logical_id)
        queue_urls[arn] = names[logical_id] = aws.create_queue(logical_id, properties)
    names |= {f"{function.logical_id}.Arn": function.name for function in plain.functions}
    template = Template(path, parameters=parameters, names=names)
    for logical_id, properties in template.of_type("AWS::SQS::Queue").items():
        if "RedrivePolicy" in properties:
            aws.redrive(names[logical_id], properties["RedrivePolicy"])
    return template, queue_urls


def _secrets(aws: Aws, plain: Template, password: str) -> dict[str, str]:
    names = {}
    for logical_id, properties in plain.of_type("AWS::SecretsManager::Secret").items():
        value = generated_secret(properties)
        if f'"{_APPLICATION_ROLE}"' in value:
            value = json.dumps(json.loads(value) | {"password": password})
        names[logical_id] = aws.create_secret(logical_id, value)
    return names


def _buckets(aws: Aws, plain: Template) -> dict[str, str]:
    names = {}
    for logical_id in plain.of_type("AWS::S3::Bucket"):
        names[logical_id] = f"postlease-{logical_id.lower()}"
        aws.create_bucket(names[logical_id])
    return names


def _configuration_sets(aws: Aws, plain: Template) -> dict[str, str]:
    names = {}
    for logical_id, properties in plain.of_type("AWS::SES::ConfigurationSet").items():
        names[logical_id] = str(properties["Name"])
        aws.create_configuration_set(names[logical_id])
    return names
