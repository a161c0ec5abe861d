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
    from postlease.delivery.calls import Calls
    from postlease.model import Claim

BATCH = 250
"""A statement is planned anew each time, which costs about as much as 40 messages; and while one
batch is written the next one gathers, so that few large ones take longer than these."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Asker(Protocol):
    """Whoever waits for an answer. together is told of all of its kind at once."""

    @property
    def together(self) -> Together: ...


class Together(Protocol):
    """Wakes askers, which are all its own."""

    def resume(self, askers: Sequence[Any]) -> None: ...

    def brings_more(self) -> bool:
        """Whether others of its askers are about to ask."""
        ...


class _Bells:
    """Those who stand and wait, each for itself."""

    def resume(self, askers: Sequence[_Bell]) -> None:
        for bell in askers:
            bell.rung.set()

    def brings_more(self) -> bool:
        return False


class _Bell:
    together = _Bells()

    def __init__(self) -> None:
        self.rung = threading.Event()


@dataclass(slots=True, eq=False)
class Request(Generic[Item, Result]):
    """One message's item, to be put into its line once.

    until is the monotonic second after which repeating is pointless, ready_at the one before which
    it is too early. urgency: what is lower goes first where not all can. alone: it is written by
    itself, so that it costs nobody else anything. answered_at: when its answer was asked for.
    """

    line: Line[Item, Result]
    item: Item
    claim: Claim
    until: float
    urgency: int = 0
    ready_at: float = -math.inf
    alone: bool = False
    asker: Asker | None = None
    result: Result | None = None
    error: Exception | None = None
    answered_at: float = -math.inf

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

    @property
    def lets_call(self) -> bool:
        """Whether its answer is what a call to the provider waits for."""
        return self.line.lets_call

    def put(self, asker: Asker) -> None:
        """Ask, in asker's name."""
        self.asker = asker
        self.line.put(self)

    def _answer(self) -> Result:
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # whose traceback has this frame: no mail is kept by a cycle
        return cast("Result", self.result)


def answered(requests: Sequence[Request[Any, Any]]) -> None:
    """Wake those who asked."""
    askers: dict[Together, list[Asker]] = {}
    for request in requests:
        if request.asker is not None:
            askers.setdefault(request.asker.together, []).append(request.asker)
    for together, group in askers.items():
        together.resume(group)


def brings_more(requests: Sequence[Request[Any, Any]]) -> bool:
    """Whether those who asked last have others with them who are about to ask."""
    asker = requests[-1].asker
    return asker is not None and asker.together.brings_more()


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
        lock: threading.Lock,
        rouse: Callable[[], None],
        write: Callable[[Connection, list[Item]], Callable[[UUID], Result]],
        *,
        longest: int = BATCH,
        calls: Calls | None = None,
    ) -> None:
        """rouse wakes whoever writes, and is called with lock in hand.

        calls: what is written lets its messages through there.
        """
        self._lock = lock
        self._rouse = rouse
        self._waiting: deque[Request[Item, Result]] = deque()
        self._longest = longest
        self._calls = calls
        self.lets_call = calls is not None
        self.write = write

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Request[Item, Result]) -> None:
        """Let request wait behind the others."""
        with self._lock:
            self._waiting.append(request)
            self._rouse()

    def put_back(self, request: Request[Item, Result]) -> None:
        """Let request, which was taken, wait again; with the lock in hand."""
        self._waiting.append(request)
        if self._calls:
            self._calls.end(None)

    @property
    def ready_at(self) -> float:
        """The monotonic second from which there is something to take; infinite if nothing waits."""
        if self._calls and self._calls.room <= 0:
            return min((request.until for request in self._waiting), default=math.inf)
        return min((request.ready_at for request in self._waiting), default=math.inf)

    def take(self) -> list[Request[Item, Result]]:
        """The next batch. A message stands in it once: its claims cannot be told apart by id."""
        if not self._waiting:
            return []
        longest = self._longest
        if self._calls and self._calls.room < min(len(self._waiting), longest):
            self._waiting = deque(sorted(self._waiting, key=_urgency))
            longest = self._calls.room
        now = time.monotonic()
        batch: dict[int, Request[Item, Result]] = {}
        later: list[Request[Item, Result]] = []
        while self._waiting and len(batch) < longest:
            request = self._waiting.popleft()
            message_id = request.claim.message_id.int  # hashed at half the cost
            if request.ready_at > now or message_id in batch or (request.alone and batch):
                later.append(request)
                continue
            batch[message_id] = request
            if request.alone:
                break
        self._waiting.extendleft(reversed(later))
        return self._taken(list(batch.values()))

    def overdue(self) -> list[Request[Item, Result]]:
        """Those that waited too long for others' calls: nobody lets them through in time."""
        if self._calls is None or self._calls.room > 0:
            return []
        now = time.monotonic()
        late = [request for request in self._waiting if request.until <= now]
        for request in late:
            self._waiting.remove(request)
        return self._taken(late)

    def _taken(self, batch: list[Request[Item, Result]]) -> list[Request[Item, Result]]:
        if self._calls:
            self._calls.begin(len(batch))
        return batch


def _urgency(request: Request[Any, Any]) -> int:
    return request.urgency
