"""What the story asks the emulator, through AWS's public APIs and over HTTP."""

from __future__ import annotations

import functools
import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

REGION = "us-east-1"
LOGIN = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The emulator takes any login; this one it knows by itself."""

_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; body is its JSON, or the text of anything else."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Cloud:
    """An emulated AWS behind one loopback port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead an SDK or the SAM CLI here."""
        return LOGIN | {"AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION}

    @functools.cache  # noqa: B019  lives as long as the program
    def client(self, service: str) -> Any:
        """A client of one service."""
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=LOGIN["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=LOGIN["AWS_SECRET_ACCESS_KEY"],
        )

    def resources(self, stack: str) -> dict[str, str]:
        """Physical ids by logical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return {
            item["LogicalResourceId"]: item["PhysicalResourceId"]
            for page in pages.paginate(StackName=stack)
            for item in page["StackResourceSummaries"]
        }

    def stack(self, name: str) -> dict[str, Any]:
        """A stack's description."""
        described = self.client("cloudformation").describe_stacks(StackName=name)
        found: dict[str, Any] = described["Stacks"][0]
        return found

    def outputs(self, stack: str) -> dict[str, str]:
        """A stack's outputs by name."""
        return {item["OutputKey"]: item["OutputValue"] for item in self.stack(stack)["Outputs"]}

    def parameters(self, stack: str) -> dict[str, str]:
        """A stack's parameters by name, defaults included."""
        return {
            item["ParameterKey"]: item["ParameterValue"] for item in self.stack(stack)["Parameters"]
        }

    def processed_template(self, stack: str) -> dict[str, Any]:
        """The template after SAM's transform, as CloudFormation keeps it."""
        client = self.client("cloudformation")
        body = client.get_template(StackName=stack, TemplateStage="Processed")["TemplateBody"]
        found: dict[str, Any] = body if isinstance(body, dict) else json.loads(body)
        return found

    def function_arn(self, name: str) -> str:
        """The ARN of a function."""
        described = self.client("lambda").get_function_configuration(FunctionName=name)
        return str(described["FunctionArn"])

    def code_of(self, stack: str) -> dict[str, str]:
        """What each function of a stack runs: the digest of its code and its layers' versions."""
        found = {}
        for logical_id, physical_id in self.resources(stack).items():
            if logical_id.endswith("Function"):
                described = self.client("lambda").get_function_configuration(
                    FunctionName=physical_id
                )
                layers = [layer["Arn"].partition(":layer:")[2] for layer in described["Layers"]]
                found[logical_id] = " ".join([described["CodeSha256"], *layers])
        return found

    def mails(self) -> list[dict[str, Any]]:
        """Everything that the emulated SES accepted, oldest first; its own page, not an AWS API."""
        by_account: dict[str, list[dict[str, Any]]]
        by_account = self._send("GET", "/_ministack/ses/messages", None, {}).body["messages"]
        return [mail for mails in by_account.values() for mail in mails]

    def events(self, stack: str) -> list[dict[str, Any]]:
        """What happened to a stack's resources, oldest first."""
        pages = self.client("cloudformation").get_paginator("describe_stack_events")
        found = [event for page in pages.paginate(StackName=stack) for event in page["StackEvents"]]
        return found[::-1]

    def records(self, log_group: str) -> list[dict[str, Any]]:
        """What the product itself wrote into a function's log group."""
        pages = self.client("logs").get_paginator("filter_log_events")
        return [
            json.loads(event["message"])
            for page in pages.paginate(logGroupName=log_group)
            for event in page["events"]
            if event["message"].startswith("{")
        ]

    def call(
        self,
        api_url: str,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        signed: bool = False,
    ) -> Answer:
        """One request to a deployed HTTP API.

        api_url's host has a name that no resolver knows: it is sent as Host, to loopback.
        """
        host = urlsplit(api_url).netloc
        content = None if body is None else json.dumps(body).encode()
        sent = {"Host": host, **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json"
        if signed:
            request = AWSRequest(method, f"http://{host}{path}", headers=sent, data=content)
            login = Credentials(LOGIN["AWS_ACCESS_KEY_ID"], LOGIN["AWS_SECRET_ACCESS_KEY"])
            SigV4Auth(login, "execute-api", REGION).add_auth(request)
            sent = dict(request.headers.items())
        return self._send(method, path, content, sent)

    def _send(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, content, dict(headers))
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = text
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, answer)
