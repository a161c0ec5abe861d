"""The virtual environment is made once, whoever asks and however often."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from local import bootstrap
from local.stack import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tree with the script and locks that need no package."""
    (tmp_path / "local").mkdir()
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "local" / "bootstrap.py", tmp_path / "local")
    for name in ("dev", "sam"):
        (tmp_path / "requirements" / f"{name}.txt").write_text("# nothing\n")
    return tmp_path


def start(project: Path, *arguments: str) -> subprocess.Popen[str]:
    """The script under way."""
    return subprocess.Popen(
        [sys.executable, "local/bootstrap.py", *arguments],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(project: Path, *arguments: str) -> tuple[int, str, str]:
    """Status and output of the script."""
    with start(project, *arguments) as script:
        output, errors = script.communicate(timeout=120)
        return script.returncode, output, errors


def snapshot(folder: Path) -> dict[str, int]:
    """Every path with the time of its last change."""
    return {str(path): path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def test_a_half_made_environment_is_repaired_once_even_by_two_at_once(project: Path) -> None:
    environment, lock = project / ".venv-sam", project / "requirements" / "sam.txt"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").touch()
    sam = ("--environment", "sam")
    with start(project, *sam) as one, start(project, *sam) as other:
        outputs = [script.communicate(timeout=120)[0] for script in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0)
    assert sum("removing the unfinished" in output for output in outputs) == 1
    assert sum("making .venv-sam with" in output for output in outputs) == 1
    assert subprocess.run([environment / "bin" / "python", "-c", ""], check=False).returncode == 0
    assert not (project / ".venv").exists()

    before = snapshot(project)
    assert run(project, *sam) == (0, "", "")
    assert snapshot(project) == before, "a second call wrote something"

    assert bootstrap.is_ready(environment, lock)
    lock.write_text("# something else\n")
    assert not bootstrap.is_ready(environment, lock)


def test_a_lock_that_cannot_be_installed_is_one_clear_line_and_no_stamp(project: Path) -> None:
    lock = project / "requirements" / "dev.txt"
    lock.write_text("./not-there.whl --hash=sha256:" + "0" * 64 + "\n")
    status, _, errors = run(project)
    assert status == 1
    assert errors.splitlines()[-1].startswith("error: the packages could not be made")
    assert not bootstrap.is_ready(project / ".venv", lock)


def test_a_python_without_venv_is_told_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(bootstrap.BootstrapError, match="has no venv"):
        bootstrap.make_environment(project / ".venv", project / "requirements" / "dev.txt")


def test_the_script_needs_nothing_but_the_standard_library(project: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "local/bootstrap.py", "--help"],
        cwd=project,
        env={"PATH": os.defpath},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, b"--environment" in ended.stdout) == (0, True)


def test_an_older_python_is_told_so_in_one_line_before_anything_else(project: Path) -> None:
    older = "import runpy, sys; sys.version_info = (3, 10, 13); sys.modules['fcntl'] = None; "
    older += "runpy.run_path('local/bootstrap.py', run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", older], cwd=project, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: Python 3.11 or newer is needed")


def test_a_tree_that_cannot_be_written_is_one_clear_line(project: Path) -> None:
    (project / ".venv.lock").mkdir()  # not even root can open it for writing
    status, output, errors = run(project)
    assert (status, output) == (1, "")
    (line,) = errors.splitlines()
    assert line.startswith("error: .venv is missing")
