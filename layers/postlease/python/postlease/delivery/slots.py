"""What is in flight in one run: how many messages, how many bytes of attachments."""

from __future__ import annotations

import threading

from postlease.outbox import Room

_GATHER_SECONDS = 0.05


class Slots:
    """Counts the messages in flight, at most size, and their attachments' bytes, at most largest.

    One message alone may hold more than largest.
    """

    def __init__(self, size: int, largest: int) -> None:
        self._size = size
        self._largest = largest
        self._in_flight = 0
        self._held = 0
        self._changed = threading.Condition()

    def take(self, number: int, held: int) -> None:
        """Note that number of messages set out, which hold so many bytes together."""
        with self._changed:
            self._in_flight += number
            self._held += held

    def give_back(self, held: int) -> None:
        """Note that one of them ended, which held so many bytes."""
        with self._changed:
            self._in_flight -= 1
            self._held -= held
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
    def room(self) -> Room:
        """How much more may be held. Only the one who claims takes of it, so it never shrinks."""
        with self._changed:
            return Room(max(self._largest - self._held, 0), alone=self._held == 0)

    @property
    def in_flight(self) -> int:
        """How many are on their way."""
        with self._changed:
            return self._in_flight
