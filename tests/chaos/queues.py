"""A queue before a function, as SQS is: batches of ten, late ones too, and again what failed."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from local.runtime import ThrottledError

if TYPE_CHECKING:
    from local.functions import Function

_BATCH = 10
_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.05


class Queue:
    """Delivers what is posted, each when it is due, from `__enter__` to `__exit__`."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, str]] = []
        self._numbers = itertools.count()
        self._at_work = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._deliver, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def post(self, body: str, *, after: float = 0) -> None:
        """Have body delivered after so many seconds."""
        with self._lock:
            heapq.heappush(self._waiting, (time.monotonic() + after, next(self._numbers), body))

    @property
    def is_empty(self) -> bool:
        """Whether everything was delivered, and not handed back."""
        with self._lock:
            return not self._waiting and not self._at_work

    def _deliver(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            while batch := self._take():
                for body in self._failed(batch):
                    self.post(body, after=_AGAIN_SECONDS)
                with self._lock:
                    self._at_work = 0

    def _take(self) -> list[str]:
        with self._lock:
            batch: list[str] = []
            while self._waiting and self._waiting[0][0] <= time.monotonic() and len(batch) < _BATCH:
                batch.append(heapq.heappop(self._waiting)[2])
            self._at_work = len(batch)
            return batch

    def _failed(self, batch: list[str]) -> list[str]:
        """What has to come again: all, if the function broke."""
        records = {str(uuid.uuid4()): body for body in batch}
        event: dict[str, Any] = {
            "Records": [
                {"messageId": identity, "body": body, "eventSource": "aws:sqs"}
                for identity, body in records.items()
            ]
        }
        with suppress(ThrottledError, ValueError):
            result = self._function.invoke(event, patience=10)
            if result.error is None:
                return [
                    records[failure["itemIdentifier"]]
                    for failure in result.value["batchItemFailures"]
                ]
        return batch
