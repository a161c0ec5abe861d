"""The emulator gets the routes of the template, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from local.stack import ROOT
from local.template import Template
from tests.emulator.routes import Declared, declared
from tests.template.deployment import GIVEN, deployment, source


@pytest.fixture(scope="module")
def body() -> dict[str, Any]:
    """The body that SAM's transform makes of the template's API."""
    found: dict[str, Any] = deployment(source()).resources["HttpApi"]["Properties"]["Body"]
    return found


def test_every_route_of_the_template_is_made_with_its_function_and_authorizer(
    body: dict[str, Any],
) -> None:
    template = Template(ROOT / "template.yaml", parameters=GIVEN)
    names = {function.name: function.logical_id for function in template.functions}
    expected = {(route.key, names[route.function], route.iam) for route in template.routes}
    assert {(route.key, route.function, route.iam) for route in declared(body)} == expected


def test_a_route_without_security_is_for_everybody_and_one_with_it_is_not() -> None:
    integration = {
        "uri": {"Fn::Sub": "arn:…/${AuthFunction.Arn}/invocations"},
        "payloadFormatVersion": "2.0",
    }
    operation = {"x-amazon-apigateway-integration": integration}
    body = {
        "paths": {
            "/a": {"get": operation},
            "/b": {"x-amazon-apigateway-any-method": operation | {"security": [{"AWS_IAM": []}]}},
            "/$default": {"x-amazon-apigateway-any-method": operation | {"isDefaultRoute": True}},
        }
    }
    assert declared(body) == [
        Declared("$default", "AuthFunction", "2.0", iam=False),
        Declared("ANY /b", "AuthFunction", "2.0", iam=True),
        Declared("GET /a", "AuthFunction", "2.0", iam=False),
    ]


def test_an_integration_that_names_no_function_is_an_error() -> None:
    operation = {"x-amazon-apigateway-integration": {"uri": "https://example.com"}}
    with pytest.raises(ValueError, match="/a names no function"):
        declared({"paths": {"/a": {"get": operation}}})
