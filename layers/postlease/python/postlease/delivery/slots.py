"""What is in flight in one run: how many messages, how many bytes of attachments."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from postlease.outbox import Room

if TYPE_CHECKING:
    from collections.abc import Callable

_GATHER_SECONDS = 0.05


class Slots:
    """Counts the messages in flight, at most size, and their attachments' bytes, at most largest.

    While no attachments are in flight, as many more may be as ahead says. One message alone may
    hold more than largest. One thread waits; any may take and give back.
    """

    def __init__(self, size: int, largest: int, ahead: Callable[[], int] = int) -> None:
        self._size = size
        self._largest = largest
        self._ahead = ahead
        self._in_flight = 0
        self._held = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._awaited: Callable[[], int] = _nobody
        """Whoever waits is woken when no more are in flight than this says then."""

    def take(self, number: int, held: int) -> None:
        """Note that number of messages set out, which hold so many bytes together."""
        with self._lock:
            self._in_flight += number
            self._held += held

    def give_back(self, held: int) -> None:
        """Note that one of them ended, which held so many bytes."""
        with self._lock:
            self._in_flight -= 1
            self._held -= held
            if self._in_flight <= self._awaited():
                self._awaited = _nobody
                self._changed.notify()

    def gather(self) -> int:
        """Wait for a free slot, and a moment longer for a quarter of them: claims are batches."""
        with self._lock:
            while True:
                self._wait_for(self._three_quarters, _GATHER_SECONDS)
                free = self._limit() - self._in_flight
                if free > 0:
                    return free

    def drain(self, seconds: float | None = None) -> bool:
        """Wait until nothing is in flight, at most so long; whether that is so."""
        with self._lock:
            return self._wait_for(lambda: 0, seconds)

    def wait(self, seconds: float) -> None:
        """Wait for a message to end, at most so long."""
        with self._lock:
            in_flight = self._in_flight
            self._awaited = lambda: in_flight
            self._changed.wait(max(seconds, 0))
            self._awaited = _nobody

    @property
    def room(self) -> Room:
        """How much more may be held. Only the one who claims takes of it, so it never shrinks."""
        with self._lock:
            return Room(max(self._largest - self._held, 0), alone=self._held == 0)

    @property
    def in_flight(self) -> int:
        """How many are on their way."""
        with self._lock:
            return self._in_flight

    def _limit(self) -> int:
        """How many may be in flight: more, once calls have told how soon the next ones begin."""
        return self._size if self._held else self._size + self._ahead()

    def _three_quarters(self) -> int:
        limit = self._limit()
        return limit - (limit + 3) // 4

    def _wait_for(self, number: Callable[[], int], seconds: float | None) -> bool:
        """Wait until no more than number are in flight, at most so long; whether that is so."""

        def is_so() -> bool:
            # Asked before each wait: whoever is waited for has forgotten the one who was woken.
            self._awaited = number
            return self._in_flight <= number()

        came = self._changed.wait_for(is_so, seconds)
        self._awaited = _nobody
        return came


def _nobody() -> int:
    return -1
