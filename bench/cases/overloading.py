"""Ten times as many sign-ups as the machine can serve: each is answered, and none is lost."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from bench.measuring.children import Child
from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.measuring.figures import percentile
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from local.stack import Stack

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

CALLERS = 4
WARM_SECONDS = 1.0
SUSTAINED_SECONDS = 5.0
OVERLOAD = 10
OVERLOAD_SECONDS = 30.0
CONNECTIONS = 600
"""More than twice the gateway's room, and few enough for 1,024 descriptors a process."""
CLEAN = {202, 429, 503}
_UNLIMITED = {"CLIENT_LIMIT_PER_MINUTE": "0", "CLIENT_LIMIT_PER_HOUR": "0"}

FOUND: LiteralString = """
SELECT count(*) FILTER (WHERE mails IS NULL), count(*) FILTER (WHERE mails > 1)
FROM unnest(%s::text[]) AS said (address)
LEFT JOIN (SELECT to_addresses[1] AS address, count(*) AS mails
           FROM postlease.email_messages WHERE template = 'verify_email' GROUP BY 1) AS there
    USING (address)
"""


class LostError(Exception):
    """What was accepted is not there once, or an answer was not clean or did not come."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the callers of one load tell. seconds: until their last question; ended: last answer."""

    seconds: float
    ended: float
    answers: dict[int, int]
    milliseconds: list[float]
    accepted: list[str]
    unanswered: dict[str, int]
    not_sent: int

    @property
    def accepted_per_second(self) -> float:
        """Until the last answer: some questions were still waiting when the last was asked."""
        return len(self.accepted) / self.ended

    def row(self, name: str) -> tuple[str, ...]:
        """Its row of the table."""
        asked = sum(self.answers.values()) + sum(self.unanswered.values())
        return (
            name,
            number(asked / self.seconds),
            number(self.accepted_per_second),
            ", ".join(f"{n:,} x {status}" for status, n in self.answers.items()),
            number(percentile(self.milliseconds, 50)),
            number(percentile(self.milliseconds, 99)),
        )


def told(said: dict[str, Any]) -> Told:
    """What a process of callers said; JSON has no numbers for names."""
    return Told(**{**said, "answers": {int(status): n for status, n in said["answers"]}})


def verdict(load: Told, *, missing: int, doubled: int) -> str:
    """What is wrong with the answers to a load; empty if nothing is."""
    unclean = {status: n for status, n in load.answers.items() if status not in CLEAN}
    faults = {
        "answers that are not clean": unclean,
        "without an answer": load.unanswered,
        "accepted and not there": missing,
        "accepted once and there twice": doubled,
    }
    return "; ".join(f"{what}: {found}" for what, found in faults.items() if found)


def overload(cluster: Cluster, scale: Scale) -> Finding:
    """Ten times the rate that a few callers get, for half a minute; then all is counted."""
    del scale
    with Stack(database_url=cluster.url, settings=_UNLIMITED, timeouts={}) as stack:
        _called(stack.url, "warm", CALLERS, WARM_SECONDS)
        calm = _called(stack.url, "calm", CALLERS, SUSTAINED_SECONDS)
        wanted = calm.accepted_per_second * OVERLOAD
        tell(f"  sustained: {number(wanted / OVERLOAD)} sign-ups/s; now {OVERLOAD} times as many")
        many = _called(stack.url, "many", CONNECTIONS, OVERLOAD_SECONDS, wanted)
        with psycopg.connect(stack.database_url) as connection:
            [row] = connection.execute(FOUND, [calm.accepted + many.accepted]).fetchall()
    missing, doubled = row
    for load in (calm, many):
        if wrong := verdict(load, missing=missing, doubled=doubled):
            raise LostError(wrong)
    return Finding(
        "Sign-ups beyond what the machine can serve",
        f"Through the local gateway, functions in processes of their own, doorbell off: {CALLERS}"
        f" callers, each of which asks again when it was answered, then {OVERLOAD} times their"
        f" rate for {OVERLOAD_SECONDS:.0f} s over at most {CONNECTIONS:,} connections. Every"
        " request that was sent was answered, and every mail that was accepted was found in the"
        " database, once. The gateway has room for so many requests and sends the others away at"
        " once, which is what the median is made of; those that are served wait. Callers and"
        " gateway share the processors with what they measure, so fewer are served than without the"
        " rush. Of the"
        f" {wanted * OVERLOAD_SECONDS:,.0f} requests {many.not_sent:,} were not sent, since no"
        " connection was free.",
        (
            Table(
                ("load", "asked/s", "202/s", "answers", "p50 ms", "p99 ms"),
                (calm.row(f"{CALLERS} callers"), many.row(f"{OVERLOAD} times")),
            ),
        ),
        figures={
            "sustained_per_second": calm.accepted_per_second,
            "answers": {str(status): n for status, n in many.answers.items()},
            "not_sent": many.not_sent,
            "unanswered": 0,
            "lost": 0,
        },
    )


def _called(url: str, prefix: str, connections: int, seconds: float, rate: float = 0) -> Told:
    """Let callers call for so long; without a rate, one request after the other each."""
    asked = {
        "url": url,
        "prefix": prefix,
        "connections": connections,
        "seconds": seconds,
        "rate": rate,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Child(
            [sys.executable, "-m", "bench.workers.callers", json.dumps(asked)],
            folder=ROOT,
            log=Path(folder) / "callers.log",
            environment={"PYTHONPATH": PYTHONPATH},
        ) as child,
    ):
        child.start()
        return told(child.done())
