"""What the emulator leaves out of a deployed stack, made good through the public APIs alone.

It takes no route from the template that CloudFormation was given (the API's `Body`), and cannot
read a concurrency that came as a parameter. Both are read back from the deployed stack, so what is
made here is what the template says, and nothing beside it. docs/emulator.md lists the gaps.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.emulator.cloud import Cloud

_ANY_METHOD = "x-amazon-apigateway-any-method"
_INTEGRATION = "x-amazon-apigateway-integration"
_CORS = "x-amazon-apigateway-cors"
_FUNCTION = re.compile(r"\$\{(\w+)\.Arn\}")


@dataclass(frozen=True, slots=True)
class Declared:
    """One route of the template. function is a logical id; iam: signed requests only."""

    key: str
    function: str
    payload: str
    iam: bool


def declared(body: Mapping[str, Any]) -> list[Declared]:
    """The routes that an HTTP API's OpenAPI body declares, by key."""
    return sorted(_declared(body), key=lambda route: route.key)


def _declared(body: Mapping[str, Any]) -> Iterator[Declared]:
    for path, operations in body["paths"].items():
        for method, operation in operations.items():
            integration = operation[_INTEGRATION]
            named = _FUNCTION.search(json.dumps(integration["uri"]))
            if named is None:
                raise ValueError(f"the integration of {path} names no function")
            verb = "ANY" if method == _ANY_METHOD else method.upper()
            yield Declared(
                key="$default" if operation.get("isDefaultRoute") else f"{verb} {path}",
                function=named[1],
                payload=integration["payloadFormatVersion"],
                iam=any("AWS_IAM" in scheme for scheme in operation.get("security", ())),
            )


class Shim:
    """Brings one stack's API and queue sources to what its processed template says."""

    def __init__(self, cloud: Cloud, stack: str) -> None:
        self._cloud = cloud
        self._stack = stack

    def routes(self) -> list[Declared]:
        """Make every declared route, with its integration, its authorizer and CORS.

        Answers the routes that were made: none when the API has what is declared already.
        """
        gateway = self._cloud.client("apigatewayv2")
        resources = self._cloud.resources(self._stack)
        body = self._cloud.processed_template(self._stack)["Resources"]["HttpApi"]["Properties"][
            "Body"
        ]
        api = resources["HttpApi"]
        found = declared(body)
        kept = gateway.get_routes(ApiId=api)["Items"]
        if {(item["RouteKey"], item["AuthorizationType"] == "AWS_IAM") for item in kept} == {
            (route.key, route.iam) for route in found
        }:
            return []
        for item in kept:
            gateway.delete_route(ApiId=api, RouteId=item["RouteId"])
        targets: dict[str, str] = {}
        for route in found:
            if route.function not in targets:
                made = gateway.create_integration(
                    ApiId=api,
                    IntegrationType="AWS_PROXY",
                    IntegrationUri=self._cloud.function_arn(resources[route.function]),
                    PayloadFormatVersion=route.payload,
                )
                targets[route.function] = made["IntegrationId"]
            gateway.create_route(
                ApiId=api,
                RouteKey=route.key,
                Target=f"integrations/{targets[route.function]}",
                AuthorizationType="AWS_IAM" if route.iam else "NONE",
            )
        gateway.update_api(ApiId=api, CorsConfiguration=self._cors(body[_CORS]))
        return found

    def sources(self) -> dict[str, int]:
        """Set each queue source's concurrency as a number; what is set, by logical id."""
        parameters = self._cloud.parameters(self._stack)
        resources = self._cloud.resources(self._stack)
        template = self._cloud.processed_template(self._stack)["Resources"]
        numbers = {}
        for name, resource in template.items():
            if resource["Type"] != "AWS::Lambda::EventSourceMapping":
                continue
            scaling = resource["Properties"]["ScalingConfig"]
            numbers[name] = int(_value(scaling["MaximumConcurrency"], parameters))
            self._cloud.client("lambda").update_event_source_mapping(
                UUID=resources[name], ScalingConfig={"MaximumConcurrency": numbers[name]}
            )
        return numbers

    def _cors(self, body: Mapping[str, Any]) -> dict[str, Any]:
        parameters = self._cloud.parameters(self._stack)
        return {
            name[0].upper() + name[1:]: (
                [_value(item, parameters) for item in given] if isinstance(given, list) else given
            )
            for name, given in body.items()
        }


def _value(given: Any, parameters: Mapping[str, str]) -> Any:
    return parameters[given["Ref"]] if isinstance(given, dict) else given
