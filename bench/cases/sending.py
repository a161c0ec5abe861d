"""The whole path: rendering and MIME too, and SES over HTTP through the real adapter."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cases.draining import drain
from bench.measuring.children import Child
from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.measuring.figures import Figure, figure, paired
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number, spread
from bench.peers.others import PEERS
from bench.peers.own import Own
from bench.peers.queue import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases.draining import Run
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

MESSAGES = 4_000
PEERS_MESSAGES = 2_000
SES_MESSAGES = 2_000
LOOP_THREADS = (1, 10)
SLOTS = 100


@dataclass(frozen=True, slots=True)
class Loop:
    """What a loop without a queue took; processor seconds of its process per 1,000."""

    rate: float
    processor: float


def full_path(cluster: Cluster, scale: Scale) -> Finding:
    """Render and compose, through the queue and without it; and in the workers that are Python."""
    own, bare = [], []
    peers: dict[str, list[Run]] = {}
    queue = Own(case="silent", slots=SLOTS)
    for _ in range(scale.turns):
        own.append(drain(cluster, queue, Work(MESSAGES)))
        bare.append(_loop({"case": "bytes", "messages": MESSAGES, "threads": 1}))
        tell(f"  full path: {number(own[-1].rate)}/s, alone: {number(bare[-1].rate)}/s")
        for peer in PEERS if scale.with_peers else ():
            if peer.composes:
                work = Work(PEERS_MESSAGES, composes=True)
                peers.setdefault(peer.name, []).append(drain(cluster, peer, work))
                tell(f"  {peer.name}: {number(peers[peer.name][-1].rate)}/s")
    spent = [run.worker_processor for run in own]
    alone = [loop.processor for loop in bare]
    rows = [
        ("Postlease", spread(figure([run.rate for run in own])), spread(figure(spent))),
        ("rendering and MIME alone", _rates(bare), spread(figure(alone))),
    ]
    rows += [
        (
            name,
            spread(figure([run.rate for run in runs])),
            spread(figure([run.worker_processor for run in runs])),
        )
        for name, runs in peers.items()
    ]
    return Finding(
        "Full path",
        f"{MESSAGES:,} receipts of two parts: rendered, composed, authorized, given to a provider"
        " that accepts at once, recorded; against rendering and composing alone, in one thread."
        " Workers of other queues that are written in Python render and compose the same mail by"
        f" the same functions, {PEERS_MESSAGES:,} of it.",
        (Table(("what", "messages/s", "worker CPU s/1,000"), tuple(rows)),),
        {"full_cpu_vs_render_mime": paired(spent, alone)},
        {"full_path_cpu_per_1000": figure(spent).median},
    )


def ses(cluster: Cluster, scale: Scale) -> Finding:
    """The SES adapter against a loop of plain boto3, with the same server behind both."""
    own, loops = [], {threads: [] for threads in LOOP_THREADS}  # type: ignore[var-annotated]
    with tempfile.TemporaryDirectory() as folder, _double(Path(folder)) as double:
        variables = {"AWS_ENDPOINT_URL_SESV2": f"http://127.0.0.1:{double.told}"}
        queue = Own(case="ses", slots=SLOTS, variables=variables)
        for _ in range(scale.turns):
            own.append(drain(cluster, queue, Work(SES_MESSAGES)))
            tell(f"  Postlease: {number(own[-1].rate)} sends/s")
            for threads, several in loops.items():
                asked = {"case": "boto3", "messages": SES_MESSAGES, "threads": threads}
                several.append(_loop(asked | {"variables": variables}))
                tell(f"  boto3, {threads} threads: {number(several[-1].rate)} sends/s")
        double.start()
        arrived = double.done()
    # Each loop sent one more, before the clock.
    wanted = scale.turns * (SES_MESSAGES + len(LOOP_THREADS) * (SES_MESSAGES + 1))
    if arrived != wanted:
        raise LookupError(f"{arrived} of {wanted} mails arrived")
    per_cpu = [1_000 / run.worker_processor for run in own]
    rows = [("Postlease", spread(figure([run.rate for run in own])), spread(figure(per_cpu)))]
    rows += [
        (
            f"boto3, {threads} thread{'s' if threads > 1 else ''}",
            _rates(several),
            spread(figure([1_000 / loop.processor for loop in several])),
        )
        for threads, several in loops.items()
    ]
    return Finding(
        "SES over HTTP",
        f"{SES_MESSAGES:,} receipts, rendered, composed and sent to an HTTP server in a process of"
        f" its own that answers at once: Postlease with {SLOTS} slots and all its records, against"
        " a loop of a plain boto3 client that keeps none. The better loop counts.",
        (Table(("what", "sends/s", "sends per worker CPU second"), tuple(rows)),),
        {
            "ses_sends_per_cpu_vs_boto3": _least(
                paired(per_cpu, [1_000 / loop.processor for loop in several])
                for several in loops.values()
            ),
            "ses_sends_per_s_vs_boto3": _least(
                paired([run.rate for run in own], [loop.rate for loop in several])
                for several in loops.values()
            ),
        },
        {"ses_cpu_per_1000": 1_000 / figure(per_cpu).median},
    )


def _loop(asked: dict[str, Any]) -> Loop:
    with tempfile.TemporaryDirectory() as folder:
        with _child("bench.workers.bare", Path(folder), json.dumps(asked)) as child:
            before, started = child.processor_seconds(), time.perf_counter()
            child.start()
            child.done()
            seconds = time.perf_counter() - started
            spent = child.processor_seconds() - before
        return Loop(asked["messages"] / seconds, spent / asked["messages"] * 1_000)


def _double(folder: Path) -> Child:
    return _child("bench.workers.ses_double", folder)


def _child(module: str, folder: Path, *arguments: str) -> Child:
    return Child(
        [sys.executable, "-m", module, *arguments],
        folder=ROOT,
        log=folder / "child.log",
        environment={"PYTHONPATH": PYTHONPATH},
    )


def _rates(loops: Sequence[Loop]) -> str:
    return spread(figure([loop.rate for loop in loops]))


def _least(ratios: Any) -> Figure:
    found: Figure = min(ratios, key=lambda ratio: ratio.median)
    return found
