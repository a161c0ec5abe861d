"""The samples in `events/` have the members that SAM's own samples have (tests/sam/generated)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.template.deployment import ROOT
from tests.template.test_samples import CUSTOM_RESOURCES, HTTP, QUEUES, SCHEDULES, SIGNED, sample

FREE = {
    "headers",
    "queryStringParameters",
    "pathParameters",
    "messageAttributes",
    "ResourceProperties",
    "OldResourceProperties",
}
"""What lies below these is the caller's own."""

OPTIONAL = {"body", "cookies", "pathParameters", "stageVariables"}
"""API Gateway leaves them out when there are none; SAM's samples show them empty."""

UNKNOWN_TO_SAM = {"requestContext.authorizer.iam", "ServiceToken", "version"}
"""An IAM authorizer's member, and what CloudFormation and EventBridge send besides."""

BY_REQUEST = {"PhysicalResourceId", "OldResourceProperties"}
"""Not in a custom resource's first request, of which alone SAM has a sample."""


def members(value: Any, path: str = "") -> set[str]:
    """Every member's path, of the objects in lists too."""
    if isinstance(value, list):
        return {found for item in value for found in members(item, path)}
    if not isinstance(value, dict):
        return set()
    found = set()
    for name, inner in value.items():
        own = f"{path}.{name}" if path else name
        found |= {own} | (set() if name in FREE else members(inner, own))
    return {own for own in found if not any(own.startswith(f"{at}.") for at in UNKNOWN_TO_SAM)}


def generated(name: str) -> set[str]:
    text = (ROOT / "tests/sam/generated" / f"{name}.json").read_text("utf-8")
    return members(json.loads(text))


@pytest.mark.parametrize("name", [*HTTP, *SIGNED])
def test_an_http_sample_has_the_members_that_both_of_sam_s_have_and_none_that_neither_has(
    name: str,
) -> None:
    ours = members(sample(name))
    one, other = generated("http-api"), generated("start-api-signup")
    assert ours <= one | other | UNKNOWN_TO_SAM
    assert (one & other) - OPTIONAL <= ours


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        *((name, "sqs") for name in QUEUES),
        *((name, "schedule") for name in SCHEDULES),
        *((name, "custom-resource") for name in CUSTOM_RESOURCES),
    ],
)
def test_another_sample_has_the_members_that_sam_s_has(name: str, theirs: str) -> None:
    assert members(sample(name)) - UNKNOWN_TO_SAM - BY_REQUEST == generated(theirs)
