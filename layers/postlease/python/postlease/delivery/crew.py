"""Threads that carry messages on: as many as wait for the provider, and one that works.

A message's way is a coroutine. Where it waits for the writer, its thread goes on with another
message; where it waits for anything else, it says so (`elsewhere`) and another thread takes over.
So what the writer answers at once costs one hand-over and not one for each message, and a provider
that answers at once is served by a single thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self, TypeAlias

    from postlease.delivery.requests import Request

    Steps: TypeAlias = Coroutine[Request[Any, Any], None, None]

_here = threading.local()
_NOWHERE = contextlib.nullcontext()


def elsewhere() -> AbstractContextManager[object]:
    """What surrounds a wait for the network or for a moment; for any thread."""
    absence: AbstractContextManager[object] = getattr(_here, "absence", _NOWHERE)
    return absence


class Way:
    """One message's way, and the crew that carries it."""

    __slots__ = ("_steps", "together")

    def __init__(self, crew: Crew, steps: Steps) -> None:
        self.together = crew
        self._steps = steps

    def go_on(self) -> bool:
        """Go as far as the next request, or to the end; whether that is the end."""
        try:
            request = self._steps.send(None)
        except StopIteration:
            return True
        request.put(self)
        return False


class Crew:
    """At most size threads, from `__enter__` to `__exit__`, which waits until every way ended."""

    def __init__(self, size: int) -> None:
        self._size = size
        lock = threading.Lock()
        self._has_work = threading.Condition(lock)
        self._all_ended = threading.Condition(lock)
        self._answered: deque[Way] = deque()
        self._new: deque[Way] = deque()
        self._under_way = 0
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._absent = 0
        self._somebody_comes = False
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._has_work:
            self._all_ended.wait_for(lambda: not self._under_way)
            self._is_closed = True
            self._has_work.notify_all()
        for thread in self._threads:
            thread.join()

    def begin(self, ways: Sequence[Steps]) -> None:
        """Set out on each of ways. They raise nothing."""
        with self._has_work:
            self._under_way += len(ways)
            self._new.extend(Way(self, steps) for steps in ways)
            self._call_for_a_thread()

    def resume(self, askers: Sequence[Way]) -> None:
        """Go on with what was answered, before anything new."""
        with self._has_work:
            self._answered.extend(askers)
            self._call_for_a_thread()

    def _call_for_a_thread(self) -> None:
        """See to it that somebody works, if there is work. One at a time: it calls the next."""
        if self._somebody_comes or not (self._answered or self._new):
            return
        if len(self._threads) - self._idle - self._absent > 0:
            return
        if self._idle:
            self._somebody_comes = True
            self._has_work.notify()
        elif len(self._threads) < self._size:
            self._somebody_comes = True
            thread = threading.Thread(target=self._work, name=f"send_{len(self._threads)}")
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        _here.absence = _Absence(self)
        with self._has_work:
            self._somebody_comes = False
        while (way := self._next()) is not None:
            if way.go_on():
                with self._has_work:
                    self._under_way -= 1
                    if not self._under_way:
                        self._all_ended.notify()

    def _next(self) -> Way | None:
        with self._has_work:
            while not (self._answered or self._new):
                if self._is_closed:
                    return None
                self._idle += 1
                self._has_work.wait()
                self._idle -= 1
                self._somebody_comes = False
            return self._answered.popleft() if self._answered else self._new.popleft()

    def leave(self) -> None:
        """The calling thread waits from here on for something that is not the crew's."""
        with self._has_work:
            self._absent += 1
            self._call_for_a_thread()

    def come_back(self) -> None:
        """The calling thread works again."""
        with self._has_work:
            self._absent -= 1


class _Absence:
    """A block in which its thread is absent. Such blocks do not stand in one another."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def __enter__(self) -> None:
        self._crew.leave()

    def __exit__(self, *_: object) -> None:
        self._crew.come_back()
