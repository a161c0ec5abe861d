"""Who carries a message on: threads that wait give way, and no more set out than may."""

from __future__ import annotations

import contextlib
import gc
import io
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from postlease.delivery.calls import Calls
from postlease.delivery.crew import Crew, elsewhere
from postlease.delivery.requests import Line, Request, answered, carried
from postlease.errors import UnavailableError
from postlease.model import Claim
from postlease.telemetry import attempt_ended, logger
from tests.unit.test_telemetry import a_message

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 30.0


class Waiting(Line[str, str]):
    """A line whose requests a test answers by itself."""

    def __init__(self, calls: Calls | None = None) -> None:
        super().__init__(threading.Lock(), lambda: None, lambda *_: str, calls=calls)

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


class Inside:
    """Ways that are in a wait of their own at the same time, and the most that ever were."""

    def __init__(self, together: int) -> None:
        self.most = 0
        self.passed = 0
        self._now = 0
        self._lock = threading.Lock()
        self._everybody = threading.Barrier(together)

    def wait(self) -> None:
        with elsewhere():
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            self._everybody.wait(SECONDS)
            with self._lock:
                self._now -= 1
                self.passed += 1


def test_no_more_call_at_once_than_may_however_many_are_let() -> None:
    line, inside = Waiting(Calls(100)), Inside(3)

    async def way(number: int) -> None:
        await line.ask(number)
        inside.wait()

    with Crew(3) as crew:
        crew.begin([way(number) for number in range(9)])
        answered(line.taken(9))
    assert (inside.passed, inside.most) == (9, 3)


def test_as_many_as_call_may_wait_for_something_else_besides() -> None:
    line, calling, loading = Waiting(Calls(100)), Inside(2), Inside(2)
    both = threading.Barrier(4)

    async def calls(number: int) -> None:
        await line.ask(number)
        with elsewhere():
            both.wait(SECONDS)
        calling.wait()

    async def loads() -> None:
        with elsewhere():
            both.wait(SECONDS)
        loading.wait()

    with Crew(2) as crew:
        crew.begin([calls(1), calls(2)])
        answered(line.taken(2))
        crew.begin([loads(), loads()])
    assert calling.passed + loading.passed == 4


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_way_that_breaks_ends_and_takes_no_thread_along(
    error: type[BaseException], *, leaves: bool
) -> None:
    ended = []

    async def breaks() -> None:
        if leaves:
            with elsewhere():
                raise error
        raise error

    async def goes() -> None:
        ended.append(1)

    with Crew(1) as crew:
        crew.begin([breaks(), goes(), breaks(), goes()])
    assert len(ended) == 2


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
def test_a_crew_that_gets_no_more_threads_does_with_those_it_has(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def way() -> None:
        with elsewhere():
            ended.append(1)

    def refuse(_: threading.Thread) -> None:
        raise error

    with Crew(4) as crew:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        crew.begin([way() for _ in range(20)])
    assert len(ended) == 20


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


def test_what_ended_is_told_before_its_thread_waits_or_the_crew_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, told = io.StringIO(), []
    monkeypatch.setattr(logger.registered_handler, "stream", stream)

    async def way(*, leaves: bool) -> None:
        attempt_ended(a_message(), "ses", "accepted", {})
        if leaves:
            with elsewhere():
                told.append(len(stream.getvalue().splitlines()))

    with Crew(1) as crew:
        crew.begin([way(leaves=True), way(leaves=False)])
    told.append(len(stream.getvalue().splitlines()))
    assert told == [1, 2]


def test_an_error_keeps_nothing_of_its_way_once_it_was_met() -> None:
    """A mail of megabytes must not wait for the collector of cycles."""
    line, kept = Waiting(), []

    class Content:
        """What a way holds."""

    async def way() -> None:
        content = Content()
        kept.append(weakref.ref(content))
        with contextlib.suppress(UnavailableError):
            await line.ask()

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with Crew(1) as crew:
            crew.begin([way()])
            batch = line.taken(1)
            batch[0].error = UnavailableError("away")
            answered(batch)
        assert kept[0]() is None
    finally:
        if was_enabled:
            gc.enable()


def test_a_crew_brings_more_until_the_last_has_set_out() -> None:
    seen: list[bool] = []
    with Crew(1) as crew:

        async def way() -> None:
            seen.append(crew.brings_more())

        crew.begin([way(), way(), way()])
    assert seen == [True, True, False]
