"""The page says what ran, with which settings, and tells a missed aim."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bench.measuring.cluster import ROOT
from bench.measuring.figures import Figure
from bench.measuring.findings import Finding
from bench.peers.own import Own
from bench.report import page

if TYPE_CHECKING:
    import pytest

MACHINE = {
    "measured_at": "2026-11-30",
    "cores": 2,
    "processor": "A processor",
    "memory_gb": 8.0,
    "system": "A system",
    "kernel": "6.1",
    "python": "3.11.2",
    "load": 0.1,
    "turns": 3,
}


def written() -> str:
    missed = Figure(0.3, 0.2, 0.4)
    finding = Finding("A case", "What was done.", ratios={"queue_vs_pgbench": missed})
    return page.page(
        [finding],
        failures={"mime": "the disk is full"},
        machine=MACHINE,
        versions={"Postlease": "commit 0123456", "PostgreSQL": "18.6"},
        settings={"Postlease": "100 send slots"},
        seconds=850,
    )


def test_the_page_names_the_commit_that_ran() -> None:
    assert "| Postlease | commit 0123456 | 100 send slots |" in written()


def test_a_missed_aim_and_what_was_not_measured_are_told() -> None:
    text = written()
    assert "| 0.300 (0.200 to 0.400) | at least 0.5 | **no** |" in text
    assert "- mime: the disk is full" in text


def test_without_git_there_is_no_commit_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") and (ROOT / ".git").exists():
        assert Own().version().startswith("commit ")
    monkeypatch.setenv("PATH", "")
    assert Own().version() == "no commit"
