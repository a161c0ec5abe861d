"""The connections of one run: each belongs to one thread, and none waits behind another's."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from postlease import database
from postlease.database import Database

if TYPE_CHECKING:
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
        for field in fields(self):
            getattr(self, field.name).discard()
