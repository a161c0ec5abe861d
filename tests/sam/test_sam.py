"""`sam local` runs what the template says, with the variables of its file; SAM's own code says so.

Asked for by folder (`make template`), since it wants .venv-sam.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.sam.conftest import GIVEN, OWN, SAMPLES, declared, samples
from tests.template.deployment import FUNCTIONS, LOGICAL_IDS, ROOT, deployment, source

if TYPE_CHECKING:
    from pathlib import Path

SAM = ROOT / ".venv-sam/bin/sam"
COMMANDS = ("local_start_api", "local_invoke")


def test_the_samples_are_what_sam_generates_now(said: dict[str, Any]) -> None:
    """`make sam-samples` writes them anew."""
    assert {path.name: path.read_text("utf-8") for path in SAMPLES.iterdir()} == samples(said)


def test_sam_finds_every_function_with_its_code_and_its_layers(said: dict[str, Any]) -> None:
    assert set(said["functions"]) == set(LOGICAL_IDS.values())
    for name, found in said["functions"].items():
        layers = ["PostleaseLayer", "DependenciesArm64Layer"]
        assert found["layers"] == [*layers, *(["SqlLayer"] if name == "MigrateFunction" else [])]
        assert (found["handler"], found["runtime"]) == ("app.handler", "python3.13")
        assert found["architectures"] == ["arm64"]
        assert found["timeout"] == source()["Resources"][name]["Properties"]["Timeout"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_variable_of_the_template_comes_from_the_file(
    said: dict[str, Any], function: str
) -> None:
    """The endpoints among them, without which the functions would ask the real AWS."""
    name = LOGICAL_IDS[function]
    found = said["functions"][name]["environment"]
    assert {variable for variable, value in found.items() if value == GIVEN} == declared()[name]
    assert {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SESV2"} < declared()[name]


def test_the_endpoints_are_not_set_when_deployed() -> None:
    """A reference to AWS::NoValue takes the variable away."""
    for name, function in deployment(source()).functions().items():
        variables = function["Environment"]["Variables"]
        endpoints = [value for key, value in variables.items() if key.startswith("AWS_ENDPOINT")]
        assert endpoints == [{"Ref": "AWS::NoValue"}] * 2, name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_settings_are_options_of_their_command(said: dict[str, Any], command: str) -> None:
    settings = said["settings"][command]
    assert settings.keys() - {"stack_name"} <= set(said["options"][command])
    assert settings["env_vars"] == ".local/sam-env.json"
    assert settings["region"] == "us-east-1"
    assert settings["add_host"] == ["host.docker.internal:host-gateway"]


def test_sam_serves_the_routes_of_the_template_and_checks_no_signature(
    said: dict[str, Any],
) -> None:
    """docs/sam-local.md says what that means: a signed route then answers 403 to everybody."""
    paths = deployment(source()).resources["HttpApi"]["Properties"]["Body"]["paths"]
    wanted = {
        (method.upper(), path)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if not operation.get("isDefaultRoute")
    }
    served = {(method, path) for method, path, *_ in said["routes"] if method != "OPTIONS"}
    assert {route for route in served if route[1] != "$default"} == wanted
    assert {name for _, path, name, _ in said["routes"] if path == "$default"} == {"AuthFunction"}
    assert {authorizer for *_, authorizer in said["routes"]} == {None}
    assert "authorizer" not in said["requests"]["start-api-search"]["event"]["requestContext"]


def test_what_is_no_route_of_the_template_goes_to_the_public_function(
    said: dict[str, Any],
) -> None:
    reached = {name: found["function"] for name, found in said["requests"].items()}
    assert reached == {
        "start-api-healthz": "AuthFunction",
        "start-api-signup": "AuthFunction",
        "start-api-search": "MessagesFunction",
    }


def test_sam_local_reads_all_of_it_and_stops_for_want_of_a_container_runtime(
    tmp_path: Path,
) -> None:
    """Its last word is about containers: the template, the event and the file were taken."""
    variables = tmp_path / "variables.json"
    variables.write_text(json.dumps({"SweepFunction": {"STAGE": "local"}}))
    done = subprocess.run(
        [
            str(SAM),
            *("local", "invoke", "SweepFunction", "--event", "events/sweep-schedule.json"),
            *("--template", "template.yaml", "--env-vars", str(variables)),
        ],
        cwd=ROOT,
        env={**OWN, "HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert re.search("requires a container runtime", done.stderr), done.stderr
