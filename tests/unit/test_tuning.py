"""The interpreter as a run of the delivery wants it, and only for its length."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading

import pytest

from postlease.delivery import tuning


def state() -> tuple[object, ...]:
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    return gc.get_threshold(), sys.getswitchinterval(), processors


def test_all_is_as_before_when_a_run_ends() -> None:
    before = state()
    with tuning.tuned():
        assert state()[:2] != before[:2]
    assert state() == before


def test_of_runs_that_overlap_the_last_one_sets_it_back() -> None:
    before = state()
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(tuning.tuned())
        second.enter_context(tuning.tuned())
        first.close()
        assert state()[:2] != before[:2]
    assert state()[:2] == before[:2]


def test_all_is_as_before_when_a_run_breaks() -> None:
    before = state()
    with pytest.raises(ValueError, match="broke"), tuning.tuned():
        raise ValueError("broke")
    assert state() == before


@pytest.mark.parametrize("number", range(3))
def test_the_threads_of_a_run_share_one_processor(number: int) -> None:
    del number
    seen: list[set[int]] = []
    with tuning.tuned():
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
    assert len(seen[0]) == 1
    assert seen[0] <= os.sched_getaffinity(0)


def test_a_system_that_refuses_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with tuning.tuned():
        assert sys.getswitchinterval() == pytest.approx(tuning._TURN_SECONDS)


def test_where_there_is_no_such_call_threads_run_where_they_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning.sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_setaffinity")
    with tuning.tuned():
        assert sys.getswitchinterval() == pytest.approx(tuning._TURN_SECONDS)


def test_what_was_there_before_the_first_run_is_set_aside_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a later run leaves behind must be found."""
    times: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: times.append(None))
    fresh = tuning._Tuning()
    for _ in range(2):
        fresh.begin()
        fresh.end()
    assert len(times) == 1
