"""When a lane writes at once, and when it waits for more."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from postlease.delivery import lanes
from postlease.delivery.calls import Calls
from postlease.delivery.lanes import Lane
from postlease.delivery.requests import Line, Request
from postlease.model import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 30.0


class Group:
    """Askers of whom others come when a lane asks for them: more at once, then none."""

    def __init__(self, more: int) -> None:
        self.together = self
        self.line: Line[int, Any] | None = None
        self.asked = 0
        self._more = more
        self._answers = threading.Semaphore(0)

    def put(self, number: int) -> None:
        assert self.line is not None
        claim = Claim(UUID(int=number), "worker", 1)
        Request(self.line, number, claim, time.monotonic() + SECONDS).put(self)

    def resume(self, askers: Sequence[Any]) -> None:
        self._answers.release(len(askers))

    def brings_more(self) -> bool:
        self.asked += 1
        for number in range(self._more):
            self.put(100 + number)
        brought, self._more = self._more, 0
        return brought > 0

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert self._answers.acquire(timeout=SECONDS)


class Connections:
    """A database that is never asked."""

    def connection(self) -> None:
        return None

    def discard(self) -> None:
        pass


class Batches:
    """A lane with one line, and how many were written together."""

    def __init__(self, group: Group, calls: Calls | None) -> None:
        self.written: list[int] = []
        database: Any = Connections()
        self.lane = Lane("lane", database)
        group.line = self.lane.line(self._write, calls=calls)

    def _write(self, connection: Any, items: list[int]) -> Any:
        del connection
        if items:  # a lane gets ready with none
            self.written.append(len(items))
        return lambda _: None


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a moment changes nothing."""
    monkeypatch.setattr(lanes, "_WHILE_SECONDS", SECONDS)


def test_authorizations_wait_while_others_set_out() -> None:
    group = Group(more=10)
    batches = Batches(group, Calls(100))
    group.put(0)
    group.put(1)
    with batches.lane:
        group.wait_for(12)
    assert batches.written == [2, 10]
    assert group.asked == 3


def test_what_another_line_was_asked_does_not_wait_with_them() -> None:
    """A call to the gate, or a mail whose turn it is, among authorizations."""

    class Busy(Group):
        other: Line[int, Any]

        def brings_more(self) -> bool:
            if not self.asked:
                claim = Claim(UUID(int=9), "worker", 1)
                Request(self.other, 9, claim, time.monotonic() + SECONDS).put(self)
            self.asked += 1
            return True

    group = Busy(more=0)
    batches = Batches(group, Calls(100))
    group.other = batches.lane.line(batches._write)
    group.put(0)
    group.put(1)
    with batches.lane:
        group.wait_for(3)
    assert (batches.written, group.asked) == ([2, 1], 1)


def test_records_do_not() -> None:
    group = Group(more=10)
    batches = Batches(group, None)
    group.put(0)
    group.put(1)
    with batches.lane:
        group.wait_for(2)
    assert (batches.written, group.asked) == ([2], 0)


def test_nor_does_whoever_is_alone() -> None:
    group = Group(more=10)
    batches = Batches(group, Calls(100))
    group.put(0)
    with batches.lane:
        group.wait_for(1)
    assert (batches.written, group.asked) == ([1], 0)


def test_a_connection_that_fails_at_first_ends_no_lane() -> None:
    class Away(Connections):
        tries = 0

        def connection(self) -> None:
            self.tries += 1
            if self.tries == 1:
                raise OSError("away")

    group = Group(more=0)
    batches = Batches(group, None)
    away: Any = Away()
    batches.lane._database = away
    with batches.lane:
        group.put(0)
        group.wait_for(1)
    assert (batches.written, away.tries) == ([1], 2)


def test_a_lane_whose_statement_the_server_refuses_is_not_connected() -> None:
    """What could not be recorded must not be sent."""
    told: list[bool] = []

    class Refused(Connections):
        tries = threading.Semaphore(0)

        def discard(self) -> None:
            self.tries.release()

    def refuse(*_: Any) -> Any:
        raise PermissionError

    database: Any = Refused()
    lane = Lane("lane", database, told.append)
    lane.line(refuse)
    with lane:
        for _ in range(2):
            assert database.tries.acquire(timeout=SECONDS)
    assert told == []
