"""What is asked of the writer, in lines by kind, and who waits for the answer.

A message's way awaits its request and gives its thread away meanwhile; whoever has no way waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from uuid import UUID

    from postlease.database import Connection
    from postlease.model import Claim

BATCH = 250
"""Longer arrays cost more than they save: array_position is linear."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Asker(Protocol):
    """Whoever waits for an answer. together is told of all of its kind at once."""

    @property
    def together(self) -> Together: ...


class Together(Protocol):
    """Wakes askers, which are all its own."""

    def resume(self, askers: Sequence[Any]) -> None: ...


class _Bells:
    """Those who stand and wait, each for itself."""

    def resume(self, askers: Sequence[_Bell]) -> None:
        for bell in askers:
            bell.rung.set()


class _Bell:
    together = _Bells()

    def __init__(self) -> None:
        self.rung = threading.Event()


@dataclass(slots=True, eq=False)
class Request(Generic[Item, Result]):
    """One message's item, to be put into its line once.

    until is the monotonic second after which repeating is pointless, ready_at the one before which
    it is too early. alone: it is written by itself, so that it costs nobody else anything.
    """

    line: Line[Item, Result]
    item: Item
    claim: Claim
    until: float
    ready_at: float = -math.inf
    alone: bool = False
    asker: Asker | None = None
    result: Result | None = None
    error: Exception | None = None

    def __await__(self) -> Generator[Request[Any, Any], None, Result]:
        """The answer; whoever carries the way on puts the request, and comes back with it."""
        yield self
        return self._answer()

    def wait(self) -> Result:
        """The answer. The thread waits for it."""
        self.ring()
        return self._answer()

    def ring(self) -> None:
        """Ask, and return when it is answered."""
        bell = _Bell()
        self.put(bell)
        bell.rung.wait()

    def put(self, asker: Asker) -> None:
        """Ask, in asker's name."""
        self.asker = asker
        self.line.put(self)

    def _answer(self) -> Result:
        if self.error is not None:
            raise self.error
        return cast("Result", self.result)


def answered(requests: Sequence[Request[Any, Any]]) -> None:
    """Wake those who asked."""
    askers: dict[Together, list[Asker]] = {}
    for request in requests:
        if request.asker is not None:
            askers.setdefault(request.asker.together, []).append(request.asker)
    for together, group in askers.items():
        together.resume(group)


def carried(way: Coroutine[Request[Any, Any], None, Result]) -> Result:
    """What way comes to. The thread waits wherever it has to wait."""
    while True:
        try:
            request = way.send(None)
        except StopIteration as end:
            result: Result = end.value
            return result
        request.ring()


class Line(Generic[Item, Result]):
    """Waiting requests of one kind, and how a batch of them is written."""

    def __init__(
        self,
        wake: threading.Condition,
        write: Callable[[Connection, list[Item]], Callable[[UUID], Result]],
        *,
        longest: int = BATCH,
    ) -> None:
        """Whoever writes waits for wake."""
        self._wake = wake
        self._waiting: deque[Request[Item, Result]] = deque()
        self._longest = longest
        self.write = write

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Request[Item, Result]) -> None:
        """Let request wait behind the others."""
        with self._wake:
            self._waiting.append(request)
            self._wake.notify()

    @property
    def ready_at(self) -> float:
        """The monotonic second from which there is something to take; infinite if nothing waits."""
        return min((request.ready_at for request in self._waiting), default=math.inf)

    def take(self) -> list[Request[Item, Result]]:
        """The next batch. A message stands in it once: its claims cannot be told apart by id."""
        if not self._waiting:
            return []
        now = time.monotonic()
        batch: dict[int, Request[Item, Result]] = {}
        later: list[Request[Item, Result]] = []
        while self._waiting and len(batch) < self._longest:
            request = self._waiting.popleft()
            message_id = request.claim.message_id.int  # hashed at half the cost
            if request.ready_at > now or message_id in batch or (request.alone and batch):
                later.append(request)
                continue
            batch[message_id] = request
            if request.alone:
                break
        self._waiting.extendleft(reversed(later))
        return list(batch.values())
