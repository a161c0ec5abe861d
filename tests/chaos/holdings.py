"""Which worker holds which messages, as far as the wire tells, and what was hit already."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from tests.chaos.plan import LEASE

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID


class Holdings:
    """Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, dict[UUID, float]] = defaultdict(dict)
        self._hits: Counter[UUID] = Counter()

    def hold(self, pid: int, ids: Collection[UUID]) -> None:
        """The worker was given ids, or asks to send them."""
        with self._lock:
            self._held[pid].update(dict.fromkeys(ids, time.monotonic()))

    def let_go(self, pid: int, ids: Collection[UUID]) -> None:
        """The worker settled ids, or will never learn that it has them."""
        with self._lock:
            for message in ids:
                self._held[pid].pop(message, None)

    def held_by(self, pid: int) -> frozenset[UUID]:
        """What a worker may be at; what it never heard of again ends with the lease."""
        since = time.monotonic() - LEASE
        with self._lock:
            return frozenset(message for message, at in self._held[pid].items() if at > since)

    def hit(self, ids: Collection[UUID]) -> None:
        """Whoever works on ids meets with trouble."""
        with self._lock:
            self._hits.update(ids)

    def hits(self, ids: Collection[UUID]) -> int:
        """How often that one of ids was hit that was hit most."""
        with self._lock:
            return max((self._hits[message] for message in ids), default=0)
