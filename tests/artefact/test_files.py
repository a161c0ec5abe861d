"""What would be uploaded: for each processor the right files, compiled, and nothing else."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.cloudformation import Document
from local.stack import ROOT
from tests.template.deployment import FUNCTIONS, LOGICAL_IDS

if TYPE_CHECKING:
    from local.built import Built

MACHINES = {"DependenciesArm64Layer": 0xB7, "DependenciesX86Layer": 0x3E}
"""The word of an ELF header for AArch64 and for x86-64."""

COMPILED = (*MACHINES, "PostleaseLayer")
LAYER_LIMIT = 26_000_000
UNCHECKED_HASH = 1
STALE = """
import importlib.util, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.py"):
    compiled = pathlib.Path(importlib.util.cache_from_source(path)).read_bytes()
    hashed = importlib.util.source_hash(path.read_bytes())
    if compiled[:16] != importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + hashed:
        print(path)
"""
KEPT_OF_DIST_INFO = re.compile(
    r"METADATA|.*(licen[cs]e|notice|copying|authors).*|.*\.cdx\.json", re.IGNORECASE
)


def files(folder: Path) -> list[Path]:
    """Every file below folder, by its path in it."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("layer", MACHINES)
def test_a_dependency_layer_is_under_its_limit(built: Built, layer: str) -> None:
    sizes = [(built.folder / layer / path).stat().st_size for path in files(built.folder / layer)]
    assert 10_000_000 < sum(sizes) < LAYER_LIMIT


@pytest.mark.parametrize(("layer", "machine"), MACHINES.items())
def test_every_binary_is_of_the_layer_s_processor(built: Built, layer: str, machine: int) -> None:
    """By the files' own headers, whatever the names of wheels said."""
    seen = []
    for path in files(built.folder / layer):
        head = (built.folder / layer / path).read_bytes()[:20]
        if head.startswith(b"\x7fELF"):
            assert head[4:6] == b"\x02\x01", f"{path}: not 64 bits, little-endian"
            assert struct.unpack("<H", head[18:20]) == (machine,), path
            seen.append(path.name)
        else:
            assert not re.search(r"\.so(\.|$)", path.name), f"{path}: no ELF file"
    assert any(name.startswith("_psycopg.cpython-313-") for name in seen)
    assert any(name.startswith("libpq") for name in seen)
    # Another Python's extension would be passed over in silence, for a slower one or for none.
    extensions = [name for name in seen if ".cpython-" in name]
    assert all(".cpython-313-" in name for name in extensions), extensions


@pytest.mark.parametrize("layer", MACHINES)
def test_both_processors_get_the_same_packages(built: Built, layer: str) -> None:
    wanted = {
        match[1].lower().replace("-", "_")
        for match in re.finditer(
            r"^([\w-]+)(?:\[\w+\])?==\S+( ; .*)?",
            (ROOT / "layers/dependencies/requirements.txt").read_text("utf-8"),
            re.MULTILINE,
        )
        if "win32" not in (match[2] or "")
    }
    found = {
        re.sub(r"[-.]+", "_", path.name.partition("-")[0]).lower()
        for path in (built.folder / layer / "python").glob("*.dist-info")
    }
    assert found == wanted - {"tzdata"}


@pytest.mark.parametrize("layer", COMPILED)
def test_every_module_is_compiled_for_the_runtime_and_never_checked_again(
    built: Built, layer: str
) -> None:
    """Lambda's file system is read-only and a zip keeps no fine times: else each start compiles."""
    root = built.folder / layer
    modules = [path for path in files(root) if path.suffix == ".py"]
    assert len(modules) > 50
    compiled = {
        path: path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc" for path in modules
    }
    assert {path for path in files(root) if path.suffix == ".pyc"} == set(compiled.values())
    for path in compiled.values():
        _, flags = struct.unpack("<4sI", (root / path).read_bytes()[:8])
        assert flags == UNCHECKED_HASH, path


@pytest.mark.parametrize("layer", COMPILED)
def test_what_was_compiled_is_what_the_sources_say(built: Built, layer: str) -> None:
    """Nobody compares the two where they run, so another source's code would be run."""
    told = subprocess.run(
        [built.python, "-c", STALE, built.folder / layer],
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout == ""


def test_what_is_built_says_nothing_of_the_machine_that_built_it(built: Built) -> None:
    """Else every checkout would make another version of each layer."""
    told = [
        str(path)
        for path in files(built.folder)
        if path.name != "template.yaml" and str(ROOT).encode() in (built.folder / path).read_bytes()
    ]
    assert told == []


@pytest.mark.parametrize("layer", MACHINES)
def test_a_dependency_layer_holds_no_tests_tools_or_sources_of_extensions(
    built: Built, layer: str
) -> None:
    root = built.folder / layer / "python"
    for path in files(root):
        assert not {"tests", "test", "bin", "docs", "examples", "swagger_ui"} & set(path.parts)
        assert path.suffix not in {".c", ".h", ".pyx", ".pxd", ".pyi", ".a"}, path
    assert not any((root / name).exists() for name in ("pip", "setuptools", "boto3", "botocore"))


@pytest.mark.parametrize("layer", MACHINES)
def test_of_what_pip_notes_the_version_and_the_licence_stay(built: Built, layer: str) -> None:
    root = built.folder / layer / "python"
    packages = list(root.glob("*.dist-info"))
    assert packages
    for package in packages:
        kept = files(package)
        assert Path("METADATA") in kept
        assert all(KEPT_OF_DIST_INFO.fullmatch(path.name) for path in kept), kept
        licence = "License" in (package / "METADATA").read_text("utf-8")
        assert licence or len(kept) > 1, f"{package.name} tells no licence"


def test_the_code_layer_is_the_package_as_it_is_in_the_source(built: Built) -> None:
    """Every module and every data file, and not `python/python`."""
    source = ROOT / "layers" / "postlease" / "python"
    layer = built.folder / "PostleaseLayer"
    assert [path.name for path in layer.iterdir()] == ["python"]
    assert [path.name for path in (layer / "python").iterdir()] == ["postlease"]
    told = subprocess.run(
        ["git", "ls-files", "-z", "postlease"], cwd=source, capture_output=True, check=True
    )
    wanted = {Path(name) for name in told.stdout.decode().split("\0") if name}
    made = {path for path in files(layer / "python") if path.suffix != ".pyc"}
    assert wanted <= made
    for path in wanted:
        assert (layer / "python" / path).read_bytes() == (source / path).read_bytes(), path


def test_the_authorities_of_rds_are_where_the_page_says(built: Built) -> None:
    found = "/opt/python/postlease/rds.pem"
    assert f"`{found}`" in (ROOT / "docs" / "deploy.md").read_text("utf-8")
    # A layer's content is what Lambda lays out under /opt.
    assert (built.folder / "PostleaseLayer" / Path(found).relative_to("/opt")).is_file()


def test_the_statements_of_sql_are_all_in_the_sql_layer(built: Built) -> None:
    package = built.folder / "SqlLayer" / "python" / "postlease_sql"
    made = {path for path in files(package) if path.suffix == ".sql"}
    wanted = {
        path.relative_to(ROOT / "sql")
        for folder in ("migrations", "functions")
        for path in (ROOT / "sql" / folder).glob("*.sql")
    }
    assert made == wanted
    assert {path for path in files(package) if path.suffix != ".sql"} == {Path("__init__.py")}


def test_the_sql_layer_is_migrate_s_alone(built: Built) -> None:
    """In what SAM wrote, not only in what it was given."""
    written = Document(built.folder / "template.yaml", parameters={}).raw
    users = [
        name
        for name, resource in written["Resources"].items()
        if {"Ref": "SqlLayer"} in resource["Properties"].get("Layers", ())
    ]
    assert users == [LOGICAL_IDS["migrate"]]
    shared = written["Globals"]["Function"]["Layers"]
    assert {"Ref": "SqlLayer"} not in shared
    assert {"Ref": "PostleaseLayer"} in shared


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_s_folder_holds_its_handler_and_nothing_of_the_layers(
    built: Built, name: str
) -> None:
    folder = built.function(LOGICAL_IDS[name])
    assert files(folder) == [Path("app.py")]
    source = ROOT / "functions" / name / "app.py"
    assert (folder / "app.py").read_bytes() == source.read_bytes()


def test_no_built_file_is_closed_to_the_user_that_lambda_runs_as(built: Built) -> None:
    closed = [
        str(path)
        for path in files(built.folder)
        if not os.stat(built.folder / path).st_mode & 0o004  # noqa: PTH116
    ]
    assert closed == []
