"""What is promised to a keeper happens when its owner ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from local.keeper import Keeper

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)",
]


def test_processes_are_ended_and_folders_removed(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    (folder / "deep").mkdir(parents=True)
    keeper = Keeper()
    with subprocess.Popen(SLEEPER) as sleeper:
        keeper.remove_folder(folder)
        keeper.end_child(sleeper.pid)
        keeper.close()
        assert sleeper.wait(10) == -9
    assert not folder.exists()


def test_a_process_that_ended_is_forgotten() -> None:
    keeper = Keeper()
    with subprocess.Popen(SLEEPER) as sleeper:
        keeper.end_child(sleeper.pid)
        keeper.forget_child(sleeper.pid)
        keeper.close()
        assert sleeper.poll() is None
        sleeper.kill()


def test_a_process_deaf_to_its_signal_is_killed() -> None:
    keeper = Keeper()
    with subprocess.Popen(DEAF, stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout
        deaf.stdout.readline()
        keeper.end_child(deaf.pid, with_signal=15)
        keeper.close()
        assert deaf.wait(10) == -9


def test_one_unpaid_debt_does_not_keep_the_others_from_being_paid(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    keeper = Keeper()
    keeper.remove_folder(folder)
    keeper.drop_database("postgresql://nobody@127.0.0.1:1/none", "none")
    keeper.close()
    assert not folder.exists()
