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

from postlease.telemetry import keep_lines, logger, write_kept

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

    __slots__ = ("_steps", "is_let_call", "together")

    def __init__(self, crew: Crew, steps: Steps) -> None:
        self.together = crew
        self.is_let_call = False
        self._steps = steps

    def go_on(self) -> bool:
        """Go as far as the next request, or to the end; whether that is the end. Raises nothing."""
        try:
            request = self._steps.send(None)
            self.is_let_call = request.lets_call
            request.put(self)
        except StopIteration:
            return True
        except BaseException as error:  # noqa: BLE001 - it would end the thread, and nobody the way
            logger.error("a way broke", extra={"reason": type(error).__name__})
            return True
        return False


class Crew:
    """Threads from `__enter__` to `__exit__`, which waits until every way ended.

    At most size of them call the provider; as many more may wait for something else before.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._most = 2 * size
        self._lock = threading.Lock()
        self._has_work = threading.Condition(self._lock)
        self._all_ended = threading.Condition(self._lock)
        self._answered: deque[Way] = deque()
        self._let_call: deque[Way] = deque()
        self._new: deque[Way] = deque()
        self._under_way = 0
        self._calling = 0
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._absent = 0
        self._somebody_comes = False
        self._is_closed = False

    def __enter__(self) -> Self:
        """Start the first thread. RuntimeError if there can be none."""
        with self._lock:
            self._start_a_thread()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._all_ended.wait_for(lambda: not self._under_way)
            self._is_closed = True
            self._has_work.notify()
        for thread in self._threads:
            thread.join()

    def begin(self, ways: Sequence[Steps]) -> None:
        """Set out on each of ways."""
        with self._lock:
            self._under_way += len(ways)
            self._new.extend(Way(self, steps) for steps in ways)
            self._call_for_a_thread()

    def resume(self, askers: Sequence[Way]) -> None:
        """Go on with what was answered, before anything new; what it lets call, as calls end."""
        with self._lock:
            for way in askers:
                (self._let_call if way.is_let_call else self._answered).append(way)
            self._call_for_a_thread()

    def brings_more(self) -> bool:
        """Whether some of what was begun has not asked for anything yet."""
        return bool(self._new)

    def _has_something(self) -> bool:
        return bool(self._answered or self._new or (self._let_call and self._calling < self._size))

    def _call_for_a_thread(self) -> None:
        """See to it that somebody works, if there is work. One at a time: it calls the next."""
        if self._somebody_comes or len(self._threads) - self._idle - self._absent > 0:
            return
        if not self._has_something():
            return
        if self._idle:
            self._somebody_comes = True
            self._has_work.notify()
        elif len(self._threads) < self._most:
            try:
                self._start_a_thread()
            except (RuntimeError, MemoryError):
                # The system has no more: those that are there do it, one after the other.
                self._most = len(self._threads)

    def _start_a_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"send_{len(self._threads)}")
        thread.start()
        self._somebody_comes = True
        self._threads.append(thread)

    def _work(self) -> None:
        _here.absence = _Absence(self)
        keep_lines()
        with self._lock:
            self._somebody_comes = False
            way = self._next()
        while way is not None:
            may_call = way.is_let_call
            has_ended = way.go_on()
            with self._lock:
                if may_call:
                    self._calling -= 1
                if has_ended:
                    self._under_way -= 1
                    if not self._under_way:
                        self._all_ended.notify()
                way = self._answered.popleft() if self._answered else None
            if way is None:
                # What ended together is told together.
                write_kept()
                with self._lock:
                    way = self._next()

    def _next(self) -> Way | None:
        """Wait for something to do; None when there will be no more."""
        while not self._has_something():
            if self._is_closed:
                # One after the other: together they would only stand in each other's way.
                self._has_work.notify()
                return None
            self._idle += 1
            self._has_work.wait()
            self._idle -= 1
            self._somebody_comes = False
        if self._answered:
            return self._answered.popleft()
        if self._let_call and self._calling < self._size:
            self._calling += 1
            return self._let_call.popleft()
        return self._new.popleft()

    def leave(self) -> None:
        """The calling thread waits from here on for something that is not the crew's."""
        with self._lock:
            self._absent += 1
            self._call_for_a_thread()

    def come_back(self) -> None:
        """The calling thread works again."""
        with self._lock:
            self._absent -= 1


class _Absence:
    """A block in which its thread is absent. Such blocks do not stand in one another."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def __enter__(self) -> None:
        write_kept()
        self._crew.leave()

    def __exit__(self, *_: object) -> None:
        self._crew.come_back()
