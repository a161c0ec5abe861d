"""Node is taken from PATH, only together with npm, and its packages as the lock names them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from local import node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lock, and nothing installed."""
    made = tmp_path / "tests"
    (made / "node_modules").mkdir(parents=True)
    (made / "package-lock.json").write_text("{}")
    monkeypatch.setattr(node, "FOLDER", made)
    return made


def put(programs: Path, name: str, script: str = "") -> Path:
    """A program of that name."""
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)
    return programs / name


def test_node_is_found_on_the_path(programs: Path) -> None:
    found, _ = put(programs, "node"), put(programs, "npm")
    assert node.find() == str(found)


@pytest.mark.parametrize("name", ["node", "npm"])
def test_one_without_the_other_is_nothing(programs: Path, name: str) -> None:
    put(programs, name)
    assert node.find() is None


def test_where_nothing_is_and_nothing_can_be_installed_one_sentence_says_so(
    programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert node.main() == 1
    assert capfd.readouterr().err.splitlines() == [f"error: {node.MISSING}"]


def test_where_installing_fails_the_command_is_named(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put(programs, "apt-get", "exit 100")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert node.main() == 1
    assert capfd.readouterr().err == "error: apt-get update failed\n"


def test_packages_are_fetched_once_for_each_lock(
    programs: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(programs, "node")
    put(programs, "npm", 'echo "$@" >> fetched')
    assert (node.main(), node.main()) == (0, 0)
    fetched = folder / "fetched"
    assert fetched.read_text().splitlines() == ["ci --ignore-scripts --no-audit --no-fund"]
    (folder / "package-lock.json").write_text("{ }")
    assert node.main() == 0
    assert len(fetched.read_text().splitlines()) == 2


def test_where_the_packages_cannot_be_fetched_the_command_is_named(
    programs: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(programs, "node")
    put(programs, "npm", "exit 1")
    assert node.main() == 1
    assert capfd.readouterr().err.startswith("error: npm ci ")
    assert not (folder / "node_modules" / ".stamp").exists()


def test_the_lock_names_exact_versions_by_their_content_and_no_registry() -> None:
    wanted = json.loads((node.FOLDER / "package.json").read_text())["dependencies"]
    locked = json.loads((node.FOLDER / "package-lock.json").read_text())["packages"]
    assert locked[""]["dependencies"] == wanted
    for name, version in wanted.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    for name, package in locked.items():
        assert not name or package["integrity"].startswith("sha512-")
        assert "resolved" not in package
