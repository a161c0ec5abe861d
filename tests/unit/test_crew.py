"""Who carries a message on: threads that wait give way, and no more set out than may."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from postlease.delivery.crew import Crew, elsewhere
from postlease.delivery.requests import Line, Request, answered, carried
from postlease.errors import UnavailableError
from postlease.model import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 30.0


class Waiting(Line[str, str]):
    """A line whose requests a test answers by itself."""

    def __init__(self) -> None:
        super().__init__(threading.Condition(), lambda *_: str)

    def ask(self, number: int = 0) -> Request[str, str]:
        claim = Claim(UUID(int=number), "worker", 1)
        return Request(self, "item", claim, time.monotonic() + SECONDS)

    def taken(self, number: int) -> list[Request[str, str]]:
        """The next batch, when so many wait."""
        wait_until(lambda: len(self) == number)
        return self.take()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_way_gives_its_thread_away_while_its_request_waits() -> None:
    line, words = Waiting(), []

    async def way(number: int) -> None:
        words.append(await line.ask(number))

    with Crew(1) as crew:
        crew.begin([way(number) for number in range(3)])
        batch = line.taken(3)
        for request in batch:
            request.result = f"answer {request.claim.message_id.int}"
        answered(batch)
    assert words == ["answer 0", "answer 1", "answer 2"]


def test_what_was_answered_goes_on_before_anything_new_begins() -> None:
    line, steps = Waiting(), []
    held = threading.Event()

    async def asks() -> None:
        await line.ask()
        steps.append("answered")

    async def holds() -> None:
        held.wait(SECONDS)

    async def new() -> None:
        steps.append("new")

    with Crew(1) as crew:
        crew.begin([asks(), holds(), new()])
        answered(line.taken(1))
        held.set()
    assert steps == ["answered", "new"]


def test_as_many_wait_elsewhere_at_once_as_there_may_be_threads() -> None:
    lock, inside, most = threading.Lock(), 0, []
    everybody = threading.Barrier(3)

    async def way() -> None:
        nonlocal inside
        with elsewhere():
            with lock:
                inside += 1
                most.append(inside)
            everybody.wait(SECONDS)
            with lock:
                inside -= 1

    with Crew(3) as crew:
        crew.begin([way() for _ in range(9)])
    assert (len(most), max(most)) == (9, 3)


def test_what_waits_for_nothing_needs_one_thread() -> None:
    threads = set()

    async def short() -> None:
        threads.add(threading.current_thread())

    with Crew(8) as crew:
        crew.begin([short() for _ in range(100)])
    assert len(threads) == 1


def test_an_error_is_raised_where_the_answer_was_awaited() -> None:
    line, caught = Waiting(), []

    async def way() -> None:
        try:
            await line.ask()
        except UnavailableError as error:
            caught.append(str(error))

    with Crew(1) as crew:
        crew.begin([way()])
        batch = line.taken(1)
        batch[0].error = UnavailableError("away")
        answered(batch)
    assert caught == ["away"]


def test_without_a_crew_the_thread_waits_for_the_answers() -> None:
    line = Waiting()

    async def way() -> str:
        with elsewhere():
            return await line.ask() + await line.ask()

    def answer() -> None:
        for _ in range(2):
            [request] = line.taken(1)
            request.result = "x"
            answered([request])

    answering: Any = threading.Thread(target=answer)
    answering.start()
    assert carried(way()) == "xx"
    answering.join()


@pytest.mark.parametrize("size", [1, 4])
def test_the_crew_ends_when_every_way_has_ended(size: int) -> None:
    before = threading.active_count()
    ended = []

    async def way() -> None:
        with elsewhere():
            time.sleep(0.002)
        ended.append(1)

    with Crew(size) as crew:
        crew.begin([way() for _ in range(10)])
    assert len(ended) == 10
    assert threading.active_count() == before
