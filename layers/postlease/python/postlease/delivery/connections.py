"""The connections of one run: each belongs to one thread, and none waits behind another's."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from postlease import database
from postlease.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from postlease.database import ReadConninfo


@dataclass(frozen=True, slots=True)
class Connections:
    """What a run claims on, asks for verdicts on, and records on. Opened when first needed."""

    claims: Database
    verdicts: Database
    records: Database

    @classmethod
    def kept(cls) -> Self:
        """Those of this environment, from one invocation to the next."""
        return cls(*(database.application(field.name) for field in fields(cls)))

    @classmethod
    def new(cls, conninfo: ReadConninfo) -> Self:
        """Others, with the login that conninfo answers; `discard` is owed."""
        return cls(*(Database(conninfo) for _ in fields(cls)))

    def discard(self) -> None:
        """Close those that are open; the next use opens new ones."""
        for kept in self._all:
            kept.discard()

    @contextlib.contextmanager
    def for_one_run(self) -> Iterator[None]:
        """A block, after which they stay open if none is missing.

        Where the server has not enough, two runs that kept two each would starve each other.
        """
        try:
            yield
        finally:
            if not all(kept.is_open for kept in self._all):
                self.discard()

    @property
    def _all(self) -> list[Database]:
        return [getattr(self, field.name) for field in fields(self)]
