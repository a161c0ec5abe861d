"""Asks the same thing again and again while something else happens, and keeps every answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.emulator.cloud import Answer

_PAUSE_SECONDS = 0.2


class Watch:
    """answers are all that ask gave between `__enter__` and `__exit__`, in order."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._broken: Exception | None = None
        self.answers: list[Answer] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._broken is not None:
            raise self._broken

    def newest(self, header: str) -> str | None:
        """The newest answer's header, or None."""
        return self.answers[-1].headers.get(header) if self.answers else None

    def _watch(self) -> None:
        while not self._ends.wait(_PAUSE_SECONDS):
            try:
                self.answers.append(self._ask())
            except Exception as error:  # noqa: BLE001  told to whoever waits
                self._broken = error
                return
