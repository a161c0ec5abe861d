"""The queues in turn: the same work for each, one after the other, three times over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.cases.draining import Run, drain
from bench.cases.limits import CLIENTS, limit
from bench.measuring.figures import figure, paired
from bench.measuring.findings import Bars, Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number, spread
from bench.peers.others import PEERS
from bench.peers.own import Own
from bench.peers.queue import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale
    from bench.peers.queue import Queue

SLOW_MESSAGES = 2_000
MANY = 40_000
LATENCY = 0.05
SLOTS = 100
MANY_SLOTS = 1_000
"""Where calls cost nothing: the most that a run may have; pg-boss holds twice as many."""
IDEAL = SLOTS / LATENCY
SLOW = "A provider that takes 50 ms, 100 at a time"
"""The case that is most like SES: what costs are made of."""
HEAD = (
    "queue",
    "messages/s",
    "worker CPU s/1,000",
    "server CPU s/1,000",
    "commits/message",
    "WAL bytes/message",
)


def no_op(cluster: Cluster, scale: Scale) -> Finding:
    """The queue path alone."""
    runs = _in_turn(cluster, scale, Work(scale.messages), limits=True)
    own = _rates(runs["Postlease"])
    bench = _best([name for name in runs if name.startswith("pgbench")], runs)
    ratios = {"queue_vs_pgbench": paired(own, _rates(runs[bench]))}
    if scale.with_peers:
        fastest = _best([peer.name for peer in PEERS], runs)
        ratios["queue_vs_fastest_peer"] = paired(own, _rates(runs[fastest]))
    return Finding(
        f"Queue path, {scale.messages:,} messages",
        "Claim, authorize, record; the mail's bytes are given and the provider accepts at once."
        " pgbench claims, authorizes and records a hundred messages at a time on the same table,"
        " three statements and three commits, and decides nothing; the fastest of them counts."
        f" Postlease has {MANY_SLOTS:,} send slots here. The queues do not keep the same:"
        " graphile-worker deletes what is done; Postlease writes each message three times, and"
        " keeps who claimed it, from when on it may have left, and what became of it. What that"
        " takes is in [measurements.md](measurements.md#where-a-messages-time-goes).",
        (_table(runs),),
        ratios,
        _figures(runs),
        (_bars(f"No-op, {scale.messages:,} messages", runs),),
    )


def no_op_many(cluster: Cluster, scale: Scale) -> Finding:
    """The same with a longer queue, for those that are fast."""
    fast = [peer for peer in PEERS if not peer.is_slow] if scale.with_peers else []
    runs = _in_turn(cluster, scale, Work(MANY), peers=fast)
    ratios = {}
    if fast:
        fastest = _best([peer.name for peer in fast], runs)
        ratios["queue_vs_fastest_peer_40k"] = paired(
            _rates(runs["Postlease"]), _rates(runs[fastest])
        )
    return Finding(
        f"Queue path, {MANY:,} messages",
        "The same with four times as many; procrastinate is left out for its speed.",
        (_table(runs),),
        ratios,
        _figures(runs),
        (_bars(f"No-op, {MANY:,} messages", runs),),
    )


def slow_provider(cluster: Cluster, scale: Scale) -> Finding:
    """A provider that takes 50 ms, a hundred calls at a time."""
    runs = _in_turn(cluster, scale, Work(scale.messages, LATENCY))
    return Finding(
        SLOW,
        f"The ideal is {IDEAL:,.0f} messages/s, which {SLOTS} calls at a time allow.",
        (_table(runs),),
        {"latency50_vs_ideal": figure([rate / IDEAL for rate in _rates(runs["Postlease"])])},
        _figures(runs),
        (_bars("50 ms, 100 at a time", runs),),
    )


def _in_turn(
    cluster: Cluster,
    scale: Scale,
    work: Work,
    *,
    peers: Sequence[Queue] = PEERS,
    limits: bool = False,
) -> dict[str, list[Run]]:
    """The runs of each, by name: what slows the machine for a while slows all of a turn."""
    own = Own(slots=SLOTS if work.seconds else MANY_SLOTS)
    queues: list[Queue] = [own, *(peers if scale.with_peers else ())]
    runs: dict[str, list[Run]] = {}
    for _ in range(scale.turns):
        for queue in queues:
            messages = SLOW_MESSAGES if queue.is_slow else work.messages
            _note(runs, queue.name, drain(cluster, queue, Work(messages, work.seconds)))
        for clients in CLIENTS if limits else ():
            name = f"pgbench, {clients} client{'s' if clients > 1 else ''}"
            _note(runs, name, limit(cluster, work.messages, clients))
    return runs


def _note(runs: dict[str, list[Run]], name: str, run: Run) -> None:
    runs.setdefault(name, []).append(run)
    tell(f"  {name}: {number(run.rate)} messages/s")


def _rates(runs: Sequence[Run]) -> list[float]:
    return [run.rate for run in runs]


def _best(names: Sequence[str], runs: dict[str, list[Run]]) -> str:
    return max(names, key=lambda name: figure(_rates(runs[name])).median)


def _table(runs: dict[str, list[Run]]) -> Table:
    rows = []
    for name, several in runs.items():
        worker = figure([run.worker_processor for run in several])
        rows.append(
            (
                name,
                spread(figure(_rates(several))),
                spread(worker) if worker.median else "-",
                spread(figure([run.server_processor for run in several])),
                number(figure([run.commits for run in several]).median),
                number(figure([run.wal for run in several]).median),
            )
        )
    return Table(HEAD, tuple(rows))


def _figures(runs: dict[str, list[Run]]) -> dict[str, object]:
    return {
        name: {
            "messages": several[0].messages,
            "messages_per_second": figure(_rates(several)).plain(),
            "worker_cpu_per_1000": figure([run.worker_processor for run in several]).plain(),
            "server_cpu_per_1000": figure([run.server_processor for run in several]).plain(),
            "commits_per_message": figure([run.commits for run in several]).plain(),
            "wal_per_message": figure([run.wal for run in several]).plain(),
        }
        for name, several in runs.items()
    }


def _bars(title: str, runs: dict[str, list[Run]]) -> Bars:
    rates = {name: figure(_rates(several)).median for name, several in runs.items()}
    return Bars(title, "messages/s", rates)
