"""One run: a full queue, a worker, and the time until the last message's end is committed."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.measuring.children import Child, ChildError

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.peers.queue import Queue, Work

_PATIENCE_SECONDS = 120
_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took. Processor seconds are per 1,000 messages."""

    messages: int
    seconds: float
    worker_processor: float
    server_processor: float
    commits: float
    wal: float
    told: Any

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def drain(cluster: Cluster, queue: Queue, work: Work) -> Run:
    """Fill queue, start its worker and measure from its start to the last commit.

    ChildError if anything is left: what was not done was not measured.
    """
    url = queue.fill(cluster, work)
    cluster.calm(url)
    worker = queue.worker(cluster, work)
    with (
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        log = Path(folder) / "worker.log"
        with Child(
            worker.command, folder=worker.folder, log=log, environment=worker.environment
        ) as child:
            before, spent_before = cluster.read(url), child.processor_seconds()
            started = time.perf_counter()
            child.start()
            told = child.done()
            while (left := _left(watcher, queue)) and time.perf_counter() - started < (
                _PATIENCE_SECONDS
            ):
                time.sleep(_POLL_SECONDS)
            seconds = time.perf_counter() - started
            spent = child.processor_seconds() - spent_before
            server = cluster.processor_seconds() - before.processor
        after = cluster.read(url)
        if left:
            raise ChildError(f"{queue.name}: {left} messages left\n{log.read_text()[-2_000:]}")
    thousands = work.messages / 1_000
    return Run(
        work.messages,
        seconds,
        spent / thousands,
        server / thousands,
        (after.commits - before.commits) / work.messages,
        (after.wal - before.wal) / work.messages,
        told,
    )


def _left(watcher: psycopg.Connection[tuple[int]], queue: Queue) -> int:
    row = watcher.execute(queue.remaining).fetchone()
    return row[0] if row else 0
