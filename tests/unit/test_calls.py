"""How many messages are let through to their calls, and how far ahead others are claimed."""

from __future__ import annotations

import threading
import time
from uuid import UUID

import pytest

from postlease.delivery.calls import Calls
from postlease.delivery.requests import Line, Request
from postlease.model import Claim


def after(*seconds: float, size: int = 10) -> Calls:
    """What is known after calls that took so long."""
    calls = Calls(size)
    for each in seconds:
        calls.begin(1)
        calls.end(each)
    return calls


class Asking(Line[str, str]):
    """A line whose requests are let through to size calls."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(threading.Lock(), lambda: None, lambda *_: str, calls=calls)

    def ask(self, number: int, *, urgency: int = 0, seconds: float = 60) -> None:
        claim = Claim(UUID(int=number), "worker", 1)
        until = time.monotonic() + seconds
        self.put(Request(self, "item", claim, until, urgency))

    def taken(self) -> list[int]:
        return [request.claim.message_id.int for request in self.take()]


def test_nothing_is_claimed_ahead_before_an_accepted_call_told_its_time() -> None:
    assert after().ahead() == 0


@pytest.mark.parametrize(("seconds", "ahead"), [(0.0, 10), (0.05, 10), (0.1, 5), (0.6, 0), (10, 0)])
def test_what_sets_out_within_a_moment_is_claimed_ahead(seconds: float, ahead: int) -> None:
    assert after(seconds).ahead() == ahead


def test_a_provider_that_becomes_slow_is_noticed() -> None:
    assert after(*[0.01] * 10, *[5.0] * 20).ahead() == 0


def test_no_more_are_let_through_than_can_call() -> None:
    line = Asking(Calls(2))
    for number in range(5):
        line.ask(number)
    assert line.taken() == [0, 1]
    assert line.taken() == []


def test_of_those_who_are_claimed_ahead_half_are_authorized_at_most() -> None:
    assert after(0.0, size=100).room == 150
    assert after(0.2, size=100).room == 115
    assert after(60.0, size=100).room == 101


def test_whoever_called_lets_the_next_through() -> None:
    calls = Calls(2)
    line = Asking(calls)
    for number in range(5):
        line.ask(number)
    line.taken()
    calls.end(None)
    assert line.taken() == [2]


def test_where_not_all_may_the_most_urgent_are_let_through_first() -> None:
    line = Asking(Calls(2))
    for number, urgency in enumerate([100, 50, 0, 50]):
        line.ask(number, urgency=urgency)
    assert line.taken() == [2, 1]


def test_what_is_put_back_is_not_counted_as_through() -> None:
    line = Asking(Calls(1))
    line.ask(0)
    [request] = line.take()
    line.put_back(request)
    assert line.taken() == [0]


def test_whoever_waits_beyond_its_time_for_others_calls_is_told_so() -> None:
    line = Asking(Calls(1))
    for number, seconds in enumerate([60, 0, 60]):
        line.ask(number, seconds=seconds)
    line.taken()
    assert line.ready_at <= time.monotonic()
    assert [request.claim.message_id.int for request in line.overdue()] == [1]
    assert line.overdue() == []


def test_with_room_for_a_call_nobody_is_overdue() -> None:
    line = Asking(Calls(2))
    line.ask(0, seconds=0)
    assert line.overdue() == []
    assert line.taken() == [0]
