"""What a queue is to the bench: how it is filled, how a worker of it is started, what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, LiteralString, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.measuring.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Work:
    """What one run does: so many messages, through a provider that takes so long.

    composes: the mail is rendered and built before it is handed over.
    """

    messages: int
    seconds: float = 0
    composes: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """How a queue's worker is started."""

    command: Sequence[str | Path]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)


class Queue(Protocol):
    """One queue. name stands in the results; settings say what is not its default.

    remaining counts the messages that are not finished in its database.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> str: ...

    @property
    def is_slow(self) -> bool: ...

    @property
    def remaining(self) -> LiteralString: ...

    def version(self) -> str:
        """What is installed."""
        ...

    def fill(self, cluster: Cluster, work: Work) -> str:
        """Make the queue hold exactly what work says; answers the URL of its database."""
        ...

    def worker(self, cluster: Cluster, work: Work) -> Worker:
        """The worker that drains it."""
        ...
