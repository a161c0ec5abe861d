"""What the SAM CLI says of this project; it lives in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.template.deployment import ROOT, source

SAMPLES = Path(__file__).parent / "generated"
PYTHON = ROOT / ".venv-sam/bin/python"
GIVEN = "from the file"
OWN = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": os.devnull,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "SAM_CLI_TELEMETRY": "0",
}
"""An environment without the developer's logins and settings."""


def declared() -> dict[str, set[str]]:
    """The variables that the template names for each function."""
    template = source()
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    return {
        name: {*shared, *resource["Properties"].get("Environment", {}).get("Variables", {})}
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


def ask(template: Path = ROOT / "template.yaml") -> dict[str, Any]:
    """What SAM makes of template, with a file of variables that gives each of them a value."""
    variables = {name: dict.fromkeys(names, GIVEN) for name, names in declared().items()}
    done = subprocess.run(
        [str(PYTHON), str(Path(__file__).with_name("says.py")), str(template)],
        env={**OWN, "VARIABLES": json.dumps(variables), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def samples(said: dict[str, Any]) -> dict[str, str]:
    """The files that belong into SAMPLES, by name."""
    events = said["events"] | {name: found["event"] for name, found in said["requests"].items()}
    return {f"{name}.json": json.dumps(event, indent=2) + "\n" for name, event in events.items()}


@pytest.fixture(scope="session")
def said() -> dict[str, Any]:
    return ask()
