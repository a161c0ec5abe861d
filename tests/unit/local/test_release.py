"""A release is made of a clean main with something to tell, or not at all."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from local import release
from tests.conftest import ROOT
from tests.releases.__main__ import is_released

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGELOG = """\
# Changelog

## [Unreleased]

What will be 0.1.0.

### Added

- A thing.
"""
# Each target does what the project's own does to the tree, as cheaply as can be.
MAKEFILE = """\
openapi:
\t@sed -n 's/^version = //p' pyproject.toml > openapi.json
schema templates:
\t@true
check:
\t@test -z "$(ARGS)$(VERSION)" && touch ../checked
snapshot:
\t@sed -n 's/^version = //p' pyproject.toml > snapshot.json
"""


def git(clone: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", *arguments], cwd=clone, capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


def commit(clone: Path, **files: str) -> None:
    """Change files of the clone, named without their dots, and commit."""
    for name, text in files.items():
        clone.joinpath(name.replace("_", ".")).write_text(text)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "change")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project that can be released as 0.1.0."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    # As a make that was given these would hand them on.
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=--dry-run VERSION=0.1.0")
    clone = tmp_path / "clone"
    clone.mkdir()
    git(clone, "init", "--quiet", "--initial-branch", "main")
    commit(
        clone,
        Makefile=MAKEFILE,
        CHANGELOG_md=CHANGELOG,
        pyproject_toml='[project]\nname = "postlease"\nversion = "0.1.0"\n',
        openapi_json='"0.1.0"\n',
        snapshot_json="none\n",
    )
    return clone


def state(clone: Path) -> tuple[str, ...]:
    """All that a release could change."""
    return git(clone, "rev-parse", "HEAD"), git(clone, "tag"), git(clone, "status", "--porcelain")


def dirty(clone: Path) -> None:
    clone.joinpath("new.txt").write_text("new")


def on_a_branch(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--create", "other")


def tagged(clone: Path) -> None:
    git(clone, "tag", "v0.1.0")
    git(clone, "tag", "v0.0.9")


def ahead(clone: Path) -> None:
    commit(clone, pyproject_toml='version = "0.2.0"\n', openapi_json='"0.2.0"\n')


def silent(clone: Path) -> None:
    commit(
        clone, CHANGELOG_md="# Changelog\n\n## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n\n- Old.\n"
    )


def stale(clone: Path) -> None:
    commit(clone, openapi_json='"0.0.1"\n')


def red(clone: Path) -> None:
    commit(clone, Makefile=MAKEFILE.replace("touch ../checked", "false"))


@pytest.mark.parametrize(
    ("arrange", "version", "why"),
    [
        (None, "v0.1.0", "no version"),
        (None, "0.1", "no version"),
        (None, "01.0.0", "no version"),
        (dirty, "0.1.0", "not clean"),
        (on_a_branch, "0.1.0", "on main, not on other"),
        (tagged, "0.1.0", "not above 0.1.0"),
        (tagged, "0.0.10", "not above 0.1.0"),
        (ahead, "0.1.0", "below 0.2.0 in pyproject.toml"),
        (silent, "0.1.0", "nothing under [Unreleased]"),
        (stale, "0.1.0", "commit them first"),
        (red, "0.1.0", "make check failed"),
    ],
)
def test_what_stands_against_a_release_is_said_and_nothing_changes(
    arrange: Callable[[Path], None] | None,
    version: str,
    why: str,
    clone: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if arrange is not None:
        arrange(clone)
    before = state(clone)
    assert release.main([version], clone) == 1
    assert why in capsys.readouterr().err
    assert state(clone) == before


def test_a_dry_run_shows_the_entries_and_changes_nothing(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(clone)
    assert release.main(["0.1.0", "--dry-run", "--checked"], clone) == 0
    told = capsys.readouterr().out
    assert "0.1.0 can be made, after none" in told
    assert "- A thing." in told
    assert state(clone) == before


def test_a_release_is_one_commit_with_its_tag_and_the_version_wherever_it_stands(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = git(clone, "rev-parse", "HEAD")
    assert release.main(["0.2.0"], clone) == 0
    assert clone.parent.joinpath("checked").exists()
    assert git(clone, "rev-list", f"{first}..HEAD").count("\n") == 0
    assert git(clone, "log", "-1", "--format=%s") == "Release 0.2.0"
    assert git(clone, "cat-file", "-t", "v0.2.0") == "tag"
    assert git(clone, "rev-parse", "v0.2.0^{}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == ""
    assert 'version = "0.2.0"' in clone.joinpath("pyproject.toml").read_text()
    assert clone.joinpath("openapi.json").read_text() == '"0.2.0"\n'
    assert clone.joinpath("snapshot.json").read_text() == '"0.2.0"\n'
    changelog = clone.joinpath("CHANGELOG.md").read_text()
    assert re.search(
        r"## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- A thing\.\n$",
        changelog,
    )
    assert "git push origin main v0.2.0" in capsys.readouterr().out
    assert is_released("0.2.0", clone)
    assert not is_released("0.3.0", clone)


def test_the_check_is_left_out_for_whoever_says_that_it_was_green(clone: Path) -> None:
    red(clone)
    assert release.main(["0.1.0", "--checked"], clone) == 0


def test_links_lead_to_the_repository_and_hold_no_login(clone: Path) -> None:
    git(clone, "remote", "add", "origin", "https://ada:secret@git.example.com/ada/postlease.git")
    assert release.main(["0.1.0", "--checked"], clone) == 0
    commit(
        clone,
        CHANGELOG_md=clone.joinpath("CHANGELOG.md")
        .read_text()
        .replace("## [Unreleased]\n", "## [Unreleased]\n\n- More.\n"),
    )
    assert release.main(["0.1.1", "--checked"], clone) == 0
    text = clone.joinpath("CHANGELOG.md").read_text()
    assert text.endswith(
        "\n- A thing.\n\n"
        "[Unreleased]: https://git.example.com/ada/postlease/compare/v0.1.1...HEAD\n"
        "[0.1.1]: https://git.example.com/ada/postlease/compare/v0.1.0...v0.1.1\n"
        "[0.1.0]: https://git.example.com/ada/postlease/releases/tag/v0.1.0\n"
    )
    assert text.index("## [0.1.1]") < text.index("- More.") < text.index("## [0.1.0]")
    assert "What will be" not in text


def test_an_address_of_ssh_leads_to_the_page_too(clone: Path) -> None:
    git(clone, "remote", "add", "origin", "git@git.example.com:ada/postlease.git")
    assert release.home_page(clone) == "https://git.example.com/ada/postlease"
    git(clone, "remote", "set-url", "origin", "/srv/postlease.git")
    assert release.home_page(clone) is None


def test_the_project_s_own_changelog_can_be_released() -> None:
    text = ROOT.joinpath("CHANGELOG.md").read_text("utf-8")
    made = release.released(text, "9.9.9", date="2026-12-01", last=None, home=None)
    assert made.count("## [Unreleased]") == 1
    assert release.entries(made) == ""
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert [line for line in made.splitlines() if line.startswith("- ")] == lines


def test_every_target_of_make_that_a_release_runs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE))
    assert {*release.GENERATED, "check", "snapshot", "release"} <= targets
