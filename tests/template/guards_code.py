"""Guards over what is deployed: handlers, processor, layers and their folders."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.template.deployment import FUNCTIONS, LOGICAL_IDS, ROOT, unhashed, written

if TYPE_CHECKING:
    from tests.template.deployment import Deployment


_DEPENDENCIES = (
    '{"Fn::If": ["IsArm64", {"Ref": "DependenciesArm64Layer"}, {"Ref": "DependenciesX86Layer"}]}'
)

LAYERS = {
    name: ("PostleaseLayer", _DEPENDENCIES, *(("SqlLayer",) if name == "migrate" else ()))
    for name in FUNCTIONS
}


def handlers(deployed: Deployment) -> list[str]:
    """Every function's folder and handler exist, and no folder is left without a function."""
    complaints = []
    for name, properties in deployed.functions().items():
        module, _, attribute = properties["Handler"].rpartition(".")
        path = deployed.code_folder(name) / f"{module}.py"
        if not path.is_file():
            complaints.append(f"{name}: {path.name} is not in {path.parent.name}/")
            continue
        body = ast.parse(path.read_text("utf-8")).body
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        if attribute not in defined:
            complaints.append(f"{name}: {path.name} defines no {attribute}")
    folders = {path.parent.name for path in (ROOT / "functions").glob("*/app.py")}
    claimed = {deployed.code_folder(name).name for name in deployed.functions()}
    return complaints + [f"functions/{name} has no function" for name in folders - claimed]


def runtimes(deployed: Deployment) -> list[str]:
    """The listed functions, on python3.13, on the processor that the parameter names."""
    complaints = []
    if set(deployed.functions()) != set(LOGICAL_IDS.values()):
        complaints.append(f"functions are {sorted(deployed.functions())}")
    for name, properties in deployed.functions().items():
        if properties["Runtime"] != "python3.13":
            complaints.append(f"{name}: runtime {properties['Runtime']}")
        if [written(value) for value in properties["Architectures"]] != ["Architecture"]:
            complaints.append(f"{name}: architecture is not the parameter's")
    allowed = deployed.source["Parameters"]["Architecture"]["AllowedValues"]
    if set(allowed) != {"arm64", "x86_64"}:
        complaints.append(f"architectures are {allowed}")
    return complaints


def layers(deployed: Deployment) -> list[str]:
    """Each function has the layers that it needs; sql/ reaches migrate alone."""
    complaints = []
    for name, wanted in LAYERS.items():
        attached = deployed.functions()[LOGICAL_IDS[name]]["Layers"]
        found = tuple(
            re.sub(r'Layer[0-9a-f]{10}"', 'Layer"', unhashed(written(layer))) for layer in attached
        )
        if found != wanted:
            complaints.append(f"{name}: layers are {found}")
    return complaints


def layer_sources(deployed: Deployment) -> list[str]:
    """Every layer is built by a makefile, which compiles it and has the target SAM asks for."""
    complaints = []
    for name, resource in deployed.source["Resources"].items():
        if resource["Type"] != "AWS::Serverless::LayerVersion":
            continue
        folder = ROOT / resource["Properties"]["ContentUri"]
        if resource["Metadata"]["BuildMethod"] != "makefile":
            complaints.append(f"{name}: SAM's own builder compiles nothing")
        makefile = folder / "Makefile"
        targets = makefile.read_text("utf-8") if makefile.is_file() else ""
        if not re.search(rf"^[^\t#\n]*\bbuild-{name}\b.*:", targets, re.MULTILINE):
            complaints.append(f"{name}: its Makefile has no build-{name}")
    return complaints
