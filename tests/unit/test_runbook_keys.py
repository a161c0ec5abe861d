"""docs/operations.md, keys and passwords: its shell, run on a secret store that is a file."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease import tokens

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Keys and passwords\n")[2].partition("\n## ")[0]

# What is AWS's: a secret's value is the file `stored`; each new one is kept in `all`, too.
STAND_INS = r"""
set -euo pipefail
output() { echo "arn:of:$1"; }
invoke() { echo "$1" >> invoked; }
sleep() { echo "$1" >> slept; }
aws() {
  case "$2" in
    get-secret-value) cat stored ;;
    put-secret-value) cat "${6#file://}" > stored; cat stored >> all ;;
    *) exit 9 ;;
  esac
}
"""


def blocks(heading: str) -> str:
    """The words of the section, and what is typed below a heading of it."""
    [words, *_] = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
    below = SECTION.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    return "".join([words, *re.findall(r"```sh\n(.*?)```", below, re.DOTALL)])


@pytest.fixture
def follow(tmp_path: Path) -> Callable[[str, dict[str, str]], list[dict[str, Any]]]:
    """Does what stands below a heading to a secret; the values that it had one after the other."""

    def run(heading: str, secret: dict[str, str]) -> list[dict[str, Any]]:
        (tmp_path / "stored").write_text(json.dumps(secret))
        script = STAND_INS + blocks(heading)
        ended = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        left = {path.name for path in tmp_path.iterdir()}
        assert left <= {"stored", "all", "invoked", "slept"}
        return [json.loads(line) for line in (tmp_path / "all").read_text().splitlines()]

    return run


def test_a_token_key_is_known_before_it_is_used_and_the_old_one_stays(
    follow: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    before = {"current": "k1", "k1": "a" * 43}
    added, switched = follow("The token keys", before)
    assert added | before == added
    assert switched == added | {"current": "k2"}
    ring = tokens.KeyRing.from_secret(switched)
    assert (ring.current, set(ring.keys)) == ("k2", {"k1", "k2"})
    # Longer than a secret is kept, twice.
    assert int((tmp_path / "slept").read_text()) >= 600


def test_the_database_s_login_gets_another_password_and_the_role_too(
    follow: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    before = {"host": "h", "username": "u", "password": "p"}
    [after] = follow("The database's password", before)
    assert after | {"password": "p"} == before
    assert len(after["password"]) > 30
    assert (tmp_path / "invoked").read_text() == "MigrateFunction\n"
