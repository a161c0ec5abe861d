"""The send slots of one run: how many messages are in flight, and waiting for it to be fewer."""

from __future__ import annotations

import threading

_GATHER_SECONDS = 0.05


class Slots:
    """Counts the messages in flight."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._in_flight = 0
        self._changed = threading.Condition()

    def take(self, number: int) -> None:
        """Note that number of messages set out."""
        with self._changed:
            self._in_flight += number

    def give_back(self) -> None:
        """Note that one of them ended."""
        with self._changed:
            self._in_flight -= 1
            self._changed.notify()

    def gather(self) -> int:
        """Wait for a free slot, and a moment longer for a quarter of them: claims are batches."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self._size)
            self._changed.wait_for(
                lambda: (self._size - self._in_flight) * 4 >= self._size, _GATHER_SECONDS
            )
            return self._size - self._in_flight

    def drain(self, seconds: float | None = None) -> bool:
        """Wait until nothing is in flight, at most so long; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._in_flight == 0, seconds)

    def wait(self, seconds: float) -> None:
        """Wait for a message to end, at most so long."""
        with self._changed:
            self._changed.wait(max(seconds, 0))

    @property
    def in_flight(self) -> int:
        """How many are on their way."""
        with self._changed:
            return self._in_flight
