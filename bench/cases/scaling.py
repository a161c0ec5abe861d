"""More workers on one queue, and more slots in one worker."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measuring import processor
from bench.measuring.children import Child
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from bench.peers.own import LEFT, Own
from bench.peers.queue import Work

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

WORKERS = (1, 2, 4, 8)
MESSAGES = 20_000
SLOTS = (10, 100, 1_000)
HELD_SECONDS = 0.05


def workers(cluster: Cluster, scale: Scale) -> Finding:
    """One queue, drained by so many workers at once."""
    del scale
    rows = []
    figures = {}
    for count in WORKERS:
        rate, spent = _together(cluster, count)
        tell(f"  at once: {count}, {number(rate)} messages/s")
        rows.append((str(count), number(rate), number(spent)))
        figures[str(count)] = rate
    return Finding(
        "Several workers on one queue",
        f"{MESSAGES:,} messages, bytes given, a provider that accepts at once; all on these cores.",
        (Table(("workers", "messages/s", "CPU s/1,000 of worker and server"), tuple(rows)),),
        figures=figures,
    )


def memory(cluster: Cluster, scale: Scale) -> Finding:
    """The most memory of one worker with so many slots, mail rendered, each held for 50 ms."""
    del scale
    rows = []
    figures = {}
    for slots in SLOTS:
        queue = Own(case="silent", slots=slots)
        work = Work(max(slots * 3, 500), HELD_SECONDS)
        cluster.calm(queue.fill(cluster, work))
        worker = queue.worker(cluster, work)
        with (
            tempfile.TemporaryDirectory() as folder,
            Child(
                worker.command,
                folder=worker.folder,
                log=Path(folder) / "worker.log",
                environment=worker.environment,
            ) as child,
        ):
            idle = processor.peak_megabytes(child.pid)
            child.start()
            child.done()
            peak = processor.peak_megabytes(child.pid)
        rows.append((f"{slots:,}", number(idle), number(peak)))
        figures[str(slots)] = peak
    return Finding(
        "Memory of a sweep",
        "The most that the process held (VmHWM), before its first mail and at its end;"
        " attachments come on top, see `make bench-attachments`.",
        (Table(("slots", "ready, MB", "most, MB"), tuple(rows)),),
        figures=figures,
    )


def _together(cluster: Cluster, count: int) -> tuple[float, float]:
    """Messages a second, and processor seconds per 1,000 of all that took part."""
    queue, work = Own(), Work(MESSAGES)
    url = queue.fill(cluster, work)
    cluster.calm(url)
    worker = queue.worker(cluster, work)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                Child(
                    worker.command,
                    folder=worker.folder,
                    log=Path(folder) / f"{place}.log",
                    environment=worker.environment,
                )
            )
            for place in range(count)
        ]
        before = sum(child.processor_seconds() for child in children) + cluster.processor_seconds()
        started = time.perf_counter()
        for child in children:
            child.start()
        for child in children:
            child.done()
        seconds = time.perf_counter() - started
        after = sum(child.processor_seconds() for child in children) + cluster.processor_seconds()
    [left] = cluster.row(url, LEFT)
    if left:
        raise LookupError(f"{left} messages left")
    return MESSAGES / seconds, (after - before) / MESSAGES * 1_000
