"""The Python for `sam build` is one that works, or a sentence says that there is none."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from local import python313

if TYPE_CHECKING:
    import pytest


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _alone(monkeypatch: pytest.MonkeyPatch, *candidates: Path) -> None:
    monkeypatch.setattr(python313, "_candidates", lambda: iter(candidates))


def test_a_shim_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = _program(tmp_path / "shims" / "python3.13", "#!/bin/sh\nexit 127\n")
    real = _program(tmp_path / "real" / "python3.13", "#!/bin/sh\nexit 0\n")
    _alone(monkeypatch, tmp_path / "absent", shim, real)
    assert python313.find() == real


def test_another_python_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A 3.13 answers the same question with yes, so the one that asks stands in for either.
    stranger = _program(tmp_path / "python3.13", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    _alone(monkeypatch, stranger)
    assert (python313.find() is not None) == (sys.version_info[:2] == (3, 13))


def test_its_absence_is_a_sentence_and_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _alone(monkeypatch)
    assert python313.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "python3.13 was not found" in printed.err


def test_the_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON313", "/opt/chosen/python3.13")
    assert next(python313._candidates()) == Path("/opt/chosen/python3.13")
