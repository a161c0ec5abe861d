"""What the SAM CLI itself makes of this project, as JSON; runs in .venv-sam, without containers.

`says.py template` prints it; VARIABLES holds the file of variables. SAM's own code reads the
template, the settings and the variables, generates its sample events, and turns requests into
events as `sam local start-api` does; only the container is left out.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import click
from samcli.cli.cli_config_file import ConfigProvider
from samcli.commands.local.invoke.cli import cli as invoke
from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
from samcli.commands.local.start_api.cli import cli as start_api
from samcli.lib.generated_sample_events.events import Events
from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.apigw.local_apigw_service import LocalApigwService

SIGN_UP = '{"email":"ada@example.com"}'
GENERATED = {
    "http-api": ("apigateway", "http-api-proxy", {"method": "GET", "path": "healthz", "body": ""}),
    "http-api-signup": (
        "apigateway",
        "http-api-proxy",
        {"method": "POST", "path": "v1/signups", "body": SIGN_UP},
    ),
    "sqs": ("sqs", "receive-message", {}),
    "schedule": ("cloudwatch", "scheduled-event", {}),
    "custom-resource": ("cloudformation", "create-request", {}),
}
"""Samples of `sam local generate-event`: service, event, what is asked for."""

REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "start-api-healthz": ("GET", "/healthz", {}),
    "start-api-signup": (
        "POST",
        "/v1/signups",
        {"data": SIGN_UP, "content_type": "application/json"},
    ),
    "start-api-search": ("GET", "/v1/messages?limit=1&status=failed", {}),
}
COMMANDS = {"local_start_api": start_api, "local_invoke": invoke}
MOMENT = {"time": "12/Mar/2026:09:30:00 +0000", "timeEpoch": 1773307800}


class Recorder:
    """Stands where SAM would start a container, and notes what it would be given."""

    cwd = "."

    def __init__(self) -> None:
        self.invoked: list[tuple[str, Any]] = []

    def is_debugging(self) -> bool:
        return False

    def invoke(self, name: str, event: str, *, stdout: Any, **_: Any) -> None:
        self.invoked.append((name, json.loads(event)))
        stdout.write_str(json.dumps({"statusCode": 204, "headers": {}}))


def events() -> dict[str, Any]:
    """`sam local generate-event`, by name."""
    library = Events()
    return {
        name: json.loads(library.generate_event(service, kind, dict(wanted)))
        for name, (service, kind, wanted) in GENERATED.items()
    }


def requests(service: LocalApigwService, recorder: Recorder) -> dict[str, Any]:
    """What a function gets for each of REQUESTS, and which function that is."""
    service.create()
    client = service._app.test_client()
    found = {}
    for name, (method, path, options) in REQUESTS.items():
        client.open(path, method=method, headers={"User-Agent": "curl/8.5.0"}, **options)
        function, event = recorder.invoked.pop()
        event["requestContext"] |= {**MOMENT, "requestId": name}
        found[name] = {"function": function, "event": event}
    return found


def settings(section: str) -> dict[str, Any]:
    """What the command of that name takes from samconfig.toml."""
    words = section.split("_", 1)
    words[1] = words[1].replace("_", "-")
    with click.Context(COMMANDS[section]):
        read = ConfigProvider(section="parameters")(
            Path("samconfig.toml").absolute(), "default", words
        )
    return dict(read)


def functions(runner: LocalLambdaRunner) -> dict[str, Any]:
    """What each function would run with."""
    return {
        function.name: {
            "handler": function.handler,
            "runtime": function.runtime,
            "architectures": function.architectures,
            "timeout": function.timeout,
            "layers": [layer.name for layer in function.layers],
            "environment": runner._make_env_vars(function).resolve(),
        }
        for function in runner.provider.get_all()
    }


def main() -> None:
    """Print all of it."""
    template = Path(sys.argv[1])
    logging.disable()
    stacks, _ = SamLocalStackProvider.get_stacks(str(template))
    given = json.loads(os.environ["VARIABLES"])
    known = SamFunctionProvider(stacks)
    runner = LocalLambdaRunner(None, known, ".", ".", env_vars_values=given)
    runner.get_aws_creds = dict
    api = ApiProvider(stacks, cwd=str(template.parent)).api
    recorder = Recorder()
    service = LocalApigwService(api, recorder, port=3000, host="127.0.0.1")
    routes = [
        [method, route.path, route.function_name, route.authorizer_name]
        for route in api.routes
        for method in route.methods
    ]
    said = {
        "events": events(),
        "requests": requests(service, recorder),
        "functions": functions(runner),
        "routes": routes,
        "settings": {section: settings(section) for section in COMMANDS},
        "options": {
            section: [option.name for option in command.params]
            for section, command in COMMANDS.items()
        },
    }
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
