"""`python -m local.release VERSION` makes a release: looks, writes, commits, tags. No push.

    looks     a clean tree on main, a version above the last one, entries in the changelog,
              generated files that are what their sources say, and `make check`
    writes    pyproject.toml, the API's description, CHANGELOG.md, the release's snapshot
    then      one commit and an annotated tag

Nothing is changed unless all that is looked at is right.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
GENERATED = ("openapi", "schema", "templates")
"""Targets of make that write what a commit should hold."""

_OF_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_PROJECT_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_UNRELEASED = re.compile(
    r"^## \[Unreleased\]\n(.*?)(?=^## \[|^\[[^\]]+\]: |\Z)", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"^\[[^\]]+\]: .*\n?", re.MULTILINE)
# Before the first release the section says which one it will be.
_PROMISE = re.compile(r"\A\s*What will be [0-9.]+\n")


class RefusedError(Exception):
    """No release can be made of this clone as it is; says why."""


def ordered(version: str) -> tuple[int, ...]:
    """The version as numbers; RefusedError for what is not `1.2.3`."""
    if not _VERSION.fullmatch(version):
        raise RefusedError(f"{version!r} is no version such as 1.2.3 (https://semver.org)")
    return tuple(int(number) for number in version.split("."))


def git(root: Path, *arguments: str) -> str:
    """What git says; RefusedError with its own words when it fails."""
    command = ["git", *arguments]
    made = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RefusedError(f"git {arguments[0]}: {made.stderr.strip()}")
    return made.stdout.strip()


def make(root: Path, *targets: str) -> None:
    """Run targets of make, whose output is shown; RefusedError when one fails."""
    command = ["make", *targets]
    # What this release's own make was given, such as ARGS, is not for them.
    environment = {k: v for k, v in os.environ.items() if k not in _OF_MAKE}
    if subprocess.run(command, cwd=root, env=environment, check=False).returncode:
        raise RefusedError(f"make {' '.join(targets)} failed")


def last_release(root: Path) -> str | None:
    """The greatest version that has a tag."""
    tags = [tag.removeprefix("v") for tag in git(root, "tag", "--list", "v*").split()]
    return max((tag for tag in tags if _VERSION.fullmatch(tag)), key=ordered, default=None)


def look(root: Path, version: str) -> None:
    """RefusedError for the first thing that stands against a release; reads only."""
    wanted = ordered(version)
    if changed := git(root, "status", "--porcelain"):
        raise RefusedError(f"the tree is not clean:\n{changed}")
    if (branch := git(root, "branch", "--show-current")) != "main":
        raise RefusedError(f"releases are made on main, not on {branch or 'no branch'}")
    last = last_release(root)
    if last is not None and wanted <= ordered(last):
        raise RefusedError(f"{version} is not above {last}, which has its tag")
    if wanted < ordered(_project_version(root)):
        raise RefusedError(f"{version} is below {_project_version(root)} in pyproject.toml")
    if not re.search(r"^- ", entries(_read(root, "CHANGELOG.md")), re.MULTILINE):
        raise RefusedError("CHANGELOG.md says nothing under [Unreleased]")


def look_at_generated(root: Path) -> None:
    """RefusedError if a generated file is not what its sources say; leaves the tree clean."""
    make(root, *GENERATED)
    if stale := git(root, "status", "--porcelain"):
        git(root, "restore", "--", *git(root, "diff", "--name-only").splitlines())
        raise RefusedError(f"make {' '.join(GENERATED)} changes files: commit them first\n{stale}")


def entries(changelog: str) -> str:
    """What stands under [Unreleased], without the sentence about the first release."""
    found = _UNRELEASED.search(changelog)
    return _PROMISE.sub("", found[1]).strip() if found else ""


def released(changelog: str, version: str, *, date: str, last: str | None, home: str | None) -> str:
    """The changelog with [Unreleased] emptied into the version's section, and its links.

    home is the repository's page, such as `https://host/owner/name`; None writes no links.
    """
    section = f"## [Unreleased]\n\n## [{version}] - {date}\n\n{entries(changelog)}\n\n"
    text = _UNRELEASED.sub(lambda _: section, changelog, count=1)
    links = [link for link in _LINK.findall(text) if not link.startswith("[Unreleased]:")]
    body = _LINK.sub("", text).rstrip() + "\n"
    if home is not None:
        since = f"compare/v{last}...v{version}" if last else f"releases/tag/v{version}"
        newest = f"[Unreleased]: {home}/compare/v{version}...HEAD\n[{version}]: {home}/{since}\n"
        links.insert(0, newest)
    return body + ("\n" + "".join(links) if links else "")


def home_page(root: Path) -> str | None:
    """The page of the repository that `origin` is; None without one. A login in it stays out."""
    if "origin" not in git(root, "remote").split():
        return None
    url = git(root, "remote", "get-url", "origin")
    if found := re.fullmatch(r"[\w.-]+@([\w.-]+):(.+)", url):
        url = f"ssh://{found[1]}/{found[2]}"
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http", "ssh"} or not parts.hostname:
        return None
    return f"https://{parts.hostname}/{parts.path.strip('/').removesuffix('.git')}"


def write(root: Path, version: str, *, date: str) -> None:
    """Write the version wherever it stands, the changelog, and what the release's code says."""
    project = root / "pyproject.toml"
    text = _PROJECT_VERSION.sub(f'version = "{version}"', project.read_text("utf-8"), count=1)
    project.write_text(text, "utf-8")
    changelog = released(
        _read(root, "CHANGELOG.md"),
        version,
        date=date,
        last=last_release(root),
        home=home_page(root),
    )
    root.joinpath("CHANGELOG.md").write_text(changelog, "utf-8")
    make(root, "openapi", "snapshot")


def release(root: Path, version: str, *, checked: bool, dry_run: bool) -> None:
    """Make the release, or say what it would be; RefusedError."""
    look(root, version)
    look_at_generated(root)
    if not checked:
        make(root, "check")
        if changed := git(root, "status", "--porcelain"):
            raise RefusedError(f"make check changed files:\n{changed}")
    last = last_release(root)
    if dry_run:
        print(f"release: {version} can be made, after {last or 'none'}; nothing was written:\n")
        print(entries(_read(root, "CHANGELOG.md")))
        return
    write(root, version, date=datetime.now(UTC).date().isoformat())
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"Release {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"Postlease {version}")
    print(f"release: {version} is committed and tagged. Look at it, then:\n")
    print(f"    git push origin main v{version}")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Make a release of the clone at root."""
    asked = argparse.ArgumentParser(
        prog='make release VERSION=x.y.z ARGS="…"',
        description="Look whether a release can be made; write, commit and tag it. Pushes nothing.",
    )
    asked.add_argument("version", help="the new version, without a v")
    asked.add_argument("--dry-run", action="store_true", help="look only, and show the entries")
    asked.add_argument("--checked", action="store_true", help="make check was green on this commit")
    given = asked.parse_args(arguments)
    try:
        release(root, given.version, checked=given.checked, dry_run=given.dry_run)
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _project_version(root: Path) -> str:
    found = _PROJECT_VERSION.search(_read(root, "pyproject.toml"))
    if found is None:
        raise RefusedError("pyproject.toml names no version")
    return found[1]


def _read(root: Path, name: str) -> str:
    return root.joinpath(name).read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main())
