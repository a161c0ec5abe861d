"""Retention among five million rows, and what claims notice of it."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cases.claiming import HISTORY, SLOTS, claimer
from bench.cases.rows import finished_up_to, wait_on
from bench.measuring.children import Child
from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.measuring.figures import percentile
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number

if TYPE_CHECKING:
    from bench.cases.claiming import Claimer
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

DAYS = 30
"""Kept for so long, four million of the rows are due."""
SECONDS = 12.0
PAUSE_SECONDS = 0.025
CLAIMS = 300
_MOST_CLAIMS = int(SECONDS / PAUSE_SECONDS) + 50


def retention(cluster: Cluster, scale: Scale) -> Finding:
    """Claims a few at a time, first alone, then while retention deletes as fast as it can."""
    del scale
    home = cluster.postlease("history")
    tell(f"  filling up to {HISTORY[-1]:,} finished rows, if they are not there")
    wait_on(home.owner, (CLAIMS + _MOST_CLAIMS + 2) * SLOTS, keep=True)
    finished_up_to(home.owner, HISTORY[-1])
    cluster.calm(home.owner)
    with claimer(home) as alone:
        for _ in range(CLAIMS):
            _one(alone)
        asked = {"url": home.application, "days": DAYS, "seconds": SECONDS}
        with (
            tempfile.TemporaryDirectory() as folder,
            Child(
                [sys.executable, "-m", "bench.workers.retiring", json.dumps(asked)],
                folder=ROOT,
                log=Path(folder) / "retiring.log",
                environment={"PYTHONPATH": PYTHONPATH},
            ) as child,
            claimer(home) as beside,
        ):
            said = _meanwhile(child, beside)
    cluster.drop("history")
    chunks = said["milliseconds"]
    rate = said["messages"] / sum(chunks) * 1_000
    tell(f"  {number(rate)} rows/s, the longest chunk {number(max(chunks))} ms")
    claims = [
        (what, *(number(percentile(one.milliseconds, percent)) for percent in (50, 99)))
        for what, one in (("alone", alone), ("beside retention", beside))
    ]
    return Finding(
        "Retention",
        f"Among {HISTORY[-1]:,} finished messages those leave that are older than {DAYS} days,"
        f" {said['chunk']} a transaction, for {SECONDS:.0f} s; meanwhile, and for as long before, a"
        f" claim of {SLOTS} each {PAUSE_SECONDS * 1_000:.0f} ms.",
        (
            Table(
                ("deleted", "rows/s", "median chunk ms", "longest chunk ms"),
                (
                    (
                        f"{said['messages']:,}",
                        number(rate),
                        number(percentile(chunks, 50)),
                        number(max(chunks)),
                    ),
                ),
            ),
            Table(("claims", "p50 ms", "p99 ms"), tuple(claims)),
        ),
        figures={
            "rows_deleted_per_second": rate,
            "longest_chunk_ms": max(chunks),
            "claim_p99_alone_ms": percentile(alone.milliseconds, 99),
            "claim_p99_beside_ms": percentile(beside.milliseconds, 99),
        },
    )


def _meanwhile(child: Child, claims: Claimer) -> Any:
    """What the child says at its end, until when claims go on."""
    said: list[Any] = []
    waiting = threading.Thread(target=lambda: said.append(child.done()), daemon=True)
    child.start()
    waiting.start()
    for _ in range(_MOST_CLAIMS):
        if not waiting.is_alive():
            break
        _one(claims)
    waiting.join()
    if not said:
        raise LookupError("retention did not end")
    return said[0]


def _one(claims: Claimer) -> None:
    claims.claim()
    time.sleep(PAUSE_SECONDS)
