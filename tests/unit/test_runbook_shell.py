"""docs/operations.md: its shell that talks to AWS, run with stand-ins for what AWS would do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease import feedback, telemetry, tokens

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
    put-secret-value) [ -s "${6#file://}" ] && cat "${6#file://}" > stored && cat stored >> all ;;
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


def test_a_token_key_that_is_there_is_not_overwritten_by_a_paste(tmp_path: Path) -> None:
    """Whoever pastes has no `set -e`: each line is done, whatever came of the one before."""
    before = {"current": "k1", "k1": "a" * 43, "k2": "b" * 43}
    (tmp_path / "stored").write_text(json.dumps(before))
    script = STAND_INS.replace("set -euo pipefail", "") + blocks("The token keys")
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "added.json" in ended.stderr
    assert json.loads((tmp_path / "stored").read_text()) == before
    assert not (tmp_path / "keys.json").exists()


def test_the_database_s_login_gets_another_password_and_the_role_too(
    follow: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    before = {"host": "h", "username": "u", "password": "p"}
    [after] = follow("The database's password", before)
    assert after | {"password": "p"} == before
    assert len(after["password"]) > 30
    assert (tmp_path / "invoked").read_text() == "MigrateFunction\n"


def test_a_lost_database_s_logs_say_what_was_sent_and_the_rest_is_open(tmp_path: Path) -> None:
    [block] = [
        one for one in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "start-query" in one
    ]
    (tmp_path / "held.txt").write_text("a\nb\nc\n")
    answers = """
set -euo pipefail
STACK=postlease
aws() {
  case "$2" in
    start-query) echo "$*" > asked; echo the-query ;;
    get-query-results) [ "$4" = the-query ]; printf 'd\\nb\\n' ;;
  esac
}
"""
    subprocess.run(["bash", "-c", answers + block], cwd=tmp_path, check=True)
    assert (tmp_path / "sent.txt").read_text() == "b\nd\n"
    assert (tmp_path / "open.txt").read_text() == "a\nc\n"
    asked = (tmp_path / "asked").read_text()
    for group in ("sweep", "doorbell", "feedback"):
        assert f"/postlease/postlease/{group}" in asked
    assert " --start-time 1796025600 " in asked


def test_what_the_logs_are_asked_is_what_workers_and_events_write() -> None:
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in (telemetry, feedback)]
    for word in ("attempt ended", "event noted"):
        assert f"message = '{word}'" in PAGE
        assert any(f"{word}" in text for text in sources)
    assert all('"message_id"' in text for text in sources)
