"""A further release is the project with one migration more and code that needs it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from local.stack import ROOT
from postlease import migrations
from tests.emulator.project import PARTS, Release, copy_project

if TYPE_CHECKING:
    from pathlib import Path


def names(project: Path) -> list[str]:
    return [file.name for file in migrations.read_files(project / "sql", "migrations")]


def test_a_copy_has_what_sam_build_reads_and_nothing_else(tmp_path: Path) -> None:
    copy = copy_project(ROOT, tmp_path / "copy")
    assert {path.name for path in copy.iterdir()} == set(PARTS)
    assert (copy / "template.yaml").read_bytes() == (ROOT / "template.yaml").read_bytes()
    assert names(copy) == names(ROOT)


def test_a_release_adds_a_migration_and_new_code_and_another_may_follow_it(tmp_path: Path) -> None:
    first = Release(ROOT, tmp_path / "first", "r1")
    second = Release(first.folder, tmp_path / "second", "r2", refused=True)
    assert names(first.folder) == [*names(ROOT), first.migration]
    assert names(second.folder) == [*names(first.folder), second.migration, second.refused]
    code = (second.folder / "functions/auth/app.py").read_text()
    defined = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    assert "handler" in defined
    # Each calls the one before it by a name of its own, not itself.
    assert code.count(" = handler\n") == 2
    assert len({line for line in code.splitlines() if line.endswith(" = handler")}) == 2


def test_a_mended_release_keeps_its_names_and_divides_by_nothing(tmp_path: Path) -> None:
    release = Release(ROOT, tmp_path / "release", "r1", refused=True)
    before, refused = names(release.folder), release.folder / "sql" / release.refused
    assert "1 / 0" in refused.read_text()
    release.mend()
    assert "1 / 0" not in refused.read_text()
    assert names(release.folder) == before
