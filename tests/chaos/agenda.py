"""What of a plan is due, and since when; what never happened."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.plan import Action


class Agenda:
    """Safe to share by threads: each action is taken once."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._lock = threading.Lock()
        self._left = list(actions)
        self._due: Counter[tuple[str, str]] = Counter()
        self._since: dict[tuple[str, str], float] = {}

    def advance(self, accepted: int) -> None:
        """Everything that is due after so many accepted messages may now happen."""
        with self._lock:
            while self._left and self._left[0].due <= accepted:
                action = self._left.pop(0)
                self._due[action.kind, action.where] += 1
                self._since[action.kind, action.where] = time.monotonic()

    def is_due(self, kind: str, where: str = "") -> bool:
        """Whether such an action may happen now."""
        with self._lock:
            return self._due[kind, where] > 0

    def waits(self, kind: str, where: str) -> float:
        """For how many seconds the youngest of that kind has been due."""
        with self._lock:
            return time.monotonic() - self._since.get((kind, where), time.monotonic())

    def take(self, kind: str, where: str = "") -> bool:
        """Whether such an action is due; then it is no longer."""
        with self._lock:
            if not self._due[kind, where]:
                return False
            self._due[kind, where] -= 1
            return True

    def give_back(self, kind: str, where: str) -> None:
        """What was taken did not happen."""
        with self._lock:
            self._due[kind, where] += 1

    @property
    def due(self) -> int:
        """How many actions may happen now."""
        with self._lock:
            return self._due.total()

    def missed(self) -> dict[str, int]:
        """What did not happen, by kind and place."""
        with self._lock:
            missed = self._due + Counter((action.kind, action.where) for action in self._left)
        return {f"{kind}:{where}": number for (kind, where), number in missed.items()}
