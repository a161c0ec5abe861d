"""Whatever is started is ended, with all that it started itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from local.keeper import Keeper
from tests.emulator.children import Child, ChildError, members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Starts another that is deaf to SIGTERM, says both numbers, and waits.
PARENT = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    yield made
    made.close()


def start(keeper: Keeper, folder: Path, *command: str) -> Child:
    return Child(
        keeper,
        [sys.executable, "-c", *command],
        environment={},
        folder=folder,
        log=folder / "log",
    )


def test_what_is_not_done_in_time_is_ended_with_its_children(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.emulator.children._PATIENCE_SECONDS", 0.2)
    child = start(keeper, tmp_path, PARENT)
    while not (said := (tmp_path / "log").read_text()).endswith("\n"):
        assert not child.has_ended
    assert set(members(child.pid)) == {child.pid, int(said)}
    with pytest.raises(ChildError, match="not done after"):
        child.wait(0.01)
    assert child.has_ended
    assert int(said) != child.pid
    assert members(child.pid) == []


def test_the_exit_status_and_the_end_of_what_was_said_are_told(
    keeper: Keeper, tmp_path: Path
) -> None:
    child = start(keeper, tmp_path, "print('first'); print('last'); raise SystemExit(3)")
    assert child.wait(60) == 3
    assert child.tail() == "first\nlast"


def test_the_keeper_ends_a_child_with_its_children_when_its_owner_is_gone(tmp_path: Path) -> None:
    keeper = Keeper()
    child = start(keeper, tmp_path, PARENT)
    while not (tmp_path / "log").read_text().endswith("\n"):
        assert not child.has_ended
    keeper.close()
    assert members(child.pid) == []
    child.end()
