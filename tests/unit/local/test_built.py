"""What SAM built is found under the template's own words."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from local.built import Built
from local.template import Template
from tests.template.deployment import ROOT

BUILT = Built(Path("build"), Path("python"))
PARAMETERS = dict.fromkeys(
    (
        "FromAddress",
        "PublicUrl",
        "AllowedOrigin",
        "DatabaseHost",
        "DatabaseOwnerSecretArn",
    ),
    "-",
)


@pytest.mark.parametrize(
    ("machine", "layer"),
    [
        ("x86_64", "DependenciesX86Layer"),
        ("AMD64", "DependenciesX86Layer"),
        ("aarch64", "DependenciesArm64Layer"),
        ("arm64", "DependenciesArm64Layer"),
    ],
)
def test_a_machine_runs_the_wheels_of_its_own_processor(
    machine: str, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    parameters = PARAMETERS | {"Architecture": BUILT.processor}
    template = Template(ROOT / "template.yaml", parameters=parameters)
    assert [layer in function.layers for function in template.functions] == [True] * 8


def test_a_layer_s_part_of_the_search_path_is_its_python_folder() -> None:
    assert BUILT.layer("SqlLayer") == Path("build/SqlLayer/python")
    assert BUILT.function("AuthFunction") == Path("build/AuthFunction")


def test_a_built_function_finds_its_files_as_read_only_as_on_lambda() -> None:
    assert BUILT.environment["PYTHONDONTWRITEBYTECODE"] == "1"
