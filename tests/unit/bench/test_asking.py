"""What the bench was asked for is done, or refused in one line that says what to do."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from psycopg.errors import DiskFull

from bench import asking
from bench.cases import CASES
from bench.measuring.wording import fault
from bench.peers import others

if TYPE_CHECKING:
    from pathlib import Path


def plan(*arguments: str) -> asking.Plan:
    return asking.plan(list(arguments), about="")


@pytest.fixture
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=14e9))


def test_the_whole_is_written_and_nothing_less() -> None:
    whole = plan()
    assert whole.names == tuple(CASES)
    assert whole.writes
    assert whole.wants_peers
    for part in ("--quick", "--only=queue", "--without-peers", "--turns=2"):
        assert not plan(part).writes


def test_the_quick_form_asks_no_other_queue_and_no_long_case() -> None:
    quick = plan("--quick")
    assert not quick.wants_peers
    assert set(quick.names) == {name for name, case in CASES.items() if case.in_quick}
    assert quick.scale.turns == 1


def test_a_case_without_other_queues_wants_none() -> None:
    assert not plan("--only=mime").wants_peers
    assert plan("--only=queue").wants_peers


def test_cases_are_taken_once_each_and_with_spaces() -> None:
    assert plan("--only=mime, queue,mime").names == ("mime", "queue")


def test_help_says_of_each_case_what_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plan("--help")
    told = capsys.readouterr().out
    for name, case in CASES.items():
        assert re.search(rf"^  {name} +{'[*]' if case.in_quick else ''} *\w.+$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ("--only=quue", "quue"),
        ("--only=", "--only"),
        ("--only=,", "--only"),
        ("--turns=0", "--turns"),
        ("--turns=two", "--turns"),
        ("--fast", "--fast"),
    ],
)
def test_what_there_is_not_is_refused_by_name(
    argument: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        plan(argument)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


@pytest.mark.usefixtures("_room")
def test_too_little_room_is_told_before_anything_is_measured() -> None:
    assert "14 GB are free for temporary files and 15 are wanted" in asking.obstacle(plan())
    assert asking.obstacle(plan("--only=mime")) == ""


@pytest.mark.usefixtures("_room")
def test_peers_that_are_not_installed_are_told_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(others, "BIN", tmp_path)
    assert "make setup-peers" in asking.obstacle(plan("--only=queue"))
    assert asking.obstacle(plan("--only=queue", "--without-peers")) == ""


def test_a_full_disk_is_told_as_one_and_nothing_by_its_text() -> None:
    assert fault(OSError(28, "No space left on device", "/a/place")) == "the disk is full"
    assert fault(DiskFull("could not extend file")) == "the disk is full"
    assert fault(LookupError("/a/place")) == "LookupError"
