"""What is measured, a module for each question.

draining     one run of one queue: seconds, processor time, commits, WAL
queues       the queues in turn
limits       what PostgreSQL itself does when pgbench asks for the same writes
composing    MIME against the standard library's
sending      the whole path, and SES over HTTP
enqueueing   asking for mail against a bare INSERT
rows         rows of another time: long sent, or not due for a month
claiming     claims behind a history, under an old snapshot, beside far-future rows
retiring     retention among five million rows, and the claims beside it
signing_up   a sign-up in process against its bare SQL
overloading  ten times as many sign-ups as the machine can serve
scaling      several workers, several slots
starting     each function's start against importing its libraries
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.cases import (
    claiming,
    composing,
    enqueueing,
    overloading,
    queues,
    retiring,
    scaling,
    sending,
    signing_up,
    starting,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Finding, Scale


@dataclass(frozen=True, slots=True)
class Case:
    """One question. in_quick: the quick form asks it too."""

    measure: Callable[[Cluster, Scale], Finding]
    in_quick: bool = False
    wants_peers: bool = False


CASES = {
    "queue": Case(queues.no_op, in_quick=True, wants_peers=True),
    "queue40k": Case(queues.no_op_many, wants_peers=True),
    "latency50": Case(queues.slow_provider, in_quick=True, wants_peers=True),
    "mime": Case(composing.composing, in_quick=True),
    "full": Case(sending.full_path, in_quick=True, wants_peers=True),
    "ses": Case(sending.ses, in_quick=True),
    "enqueue": Case(enqueueing.enqueueing, in_quick=True),
    "history": Case(claiming.history, in_quick=True),
    "retention": Case(retiring.retention),
    "far-future": Case(claiming.far_future, in_quick=True),
    "old-snapshot": Case(claiming.old_snapshot, in_quick=True),
    "sign-up": Case(signing_up.in_process, in_quick=True),
    "overload": Case(overloading.overload),
    "workers": Case(scaling.workers),
    "memory": Case(scaling.memory),
    "cold-starts": Case(starting.cold_starts),
}
