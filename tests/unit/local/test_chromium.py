"""A browser is taken from where it is named, or from PATH, and only together with its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local import chromium

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it, and nothing named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CHROMIUM", "CHROMEDRIVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put(folder: Path, name: str) -> Path:
    """A program of that name."""
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_a_browser_and_its_driver_are_found_on_the_path(programs: Path) -> None:
    browser, driver = put(programs, "chromium"), put(programs, "chromedriver")
    assert chromium.find() == chromium.Chromium(browser, driver)


def test_what_is_named_goes_first(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "chromium")
    driver, named = put(programs, "chromedriver"), put(programs, "mine")
    monkeypatch.setenv("CHROMIUM", str(named))
    assert chromium.find() == chromium.Chromium(named, driver)
    monkeypatch.setenv("CHROMIUM", str(programs / "nothing"))
    assert chromium.find() is None


@pytest.mark.parametrize("name", ["chromium", "chromedriver"])
def test_one_without_the_other_is_nothing(programs: Path, name: str) -> None:
    put(programs, name)
    assert chromium.find() is None


def test_where_nothing_is_and_nothing_can_be_installed_one_sentence_says_so(
    programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert chromium.main() == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("error: no Chromium with a chromedriver: install both")


def test_where_installing_fails_the_command_is_named(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put(programs, "apt-get").write_text("#!/bin/sh\nexit 100\n")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert chromium.main() == 1
    assert capfd.readouterr().err.startswith("error: apt-get update failed\n")
