"""What a claim costs: behind a long history, under an old snapshot, beside far-future rows.

Two databases are compared claim by claim in turn, so that both meet the same moments.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from bench.cases.rows import due_in_a_month, finished_up_to, wait_on
from bench.measuring.figures import Figure, of_percentiles, percentile
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from postlease import outbox
from postlease.database import connect
from postlease.model import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.measuring.cluster import Cluster, Home
    from bench.measuring.findings import Scale
    from postlease.database import Connection
    from postlease.model import ClaimedMessage

SLOTS = 100
CLAIMS = 300
HISTORY_CLAIMS = 600
"""More, since their p99 is compared: of 300 it is the third worst."""
HISTORY = (1_000_000, 5_000_000)
SHORT_HISTORY = (100_000,)
FAR = 100_000
UNDER_SNAPSHOT = 100_000
EVERY = 10_000

_LEASE = timedelta(seconds=45)
_TERMS = outbox.Terms("ses", keeps_keys=False, needed=timedelta(seconds=23), max_attempts=5)
_ROOM = outbox.Room(24_000_000, alone=True)


@dataclass(slots=True)
class Claimer:
    """One run's claims on one connection, and the milliseconds that they took."""

    connection: Connection
    floors: outbox.Floors
    milliseconds: list[float]

    def claim(self) -> list[ClaimedMessage]:
        """A hundred messages, timed."""
        claimant = outbox.Claimant(f"bench#{uuid.uuid4().hex}", "ses", _LEASE, 5)
        started = time.perf_counter()
        messages = outbox.claim(
            self.connection, claimant, slots=SLOTS, room=_ROOM, floors=self.floors
        )
        self.milliseconds.append((time.perf_counter() - started) * 1_000)
        if len(messages) != SLOTS:
            raise LookupError(f"{len(messages)} messages claimed")
        return messages

    def finish(self, messages: Sequence[ClaimedMessage]) -> None:
        """Authorize them and record them as sent, as the delivery does."""
        claims = [message.claim for message in messages]
        outbox.authorize(self.connection, [outbox.Asked(claim, ()) for claim in claims], _TERMS)
        settlements = [
            Settlement(
                claim, "sent", "accepted", provider_message_id=f"0100018f-{claim.message_id}"
            )
            for claim in claims
        ]
        outbox.record(self.connection, settlements)


def history(cluster: Cluster, scale: Scale) -> Finding:
    """Claims with so many finished rows, against claims with none; the rows stay for retention."""
    bare, old = cluster.postlease("bare"), cluster.postlease("history")
    rows: list[tuple[str, ...]] = []
    ratios: dict[str, Figure] = {}
    told: dict[str, Any] = {}
    number_of_claims = HISTORY_CLAIMS if scale.large else CLAIMS
    waiting = (number_of_claims + 1) * SLOTS
    growth = 1.0
    for number_of_rows in HISTORY if scale.large else SHORT_HISTORY:
        wait_on(bare.owner, waiting)
        wait_on(old.owner, waiting, keep=True)
        tell(f"  filling up to {number_of_rows:,} finished rows")
        finished_up_to(old.owner, number_of_rows)
        for home in (bare, old):
            cluster.calm(home.owner)
        with claimer(bare) as without, claimer(old) as among:
            for _ in range(number_of_claims):
                without.claim()
                among.claim()
        for what, claims in ((0, without), (number_of_rows, among)):
            rows.append((f"{what:,}", *_milliseconds(claims.milliseconds)))
            told[f"{number_of_rows} beside: {what}"] = _quantiles(claims.milliseconds)
        # Whatever the largest is here: the quick form has not the five million.
        growth = percentile(among.milliseconds, 50) / percentile(without.milliseconds, 50)
        ratios["claim_p99_5m_vs_0"] = of_percentiles(among.milliseconds, without.milliseconds, 99)
        tell(f"  p99 against none: {ratios['claim_p99_5m_vs_0'].median:.2f}")
    cluster.drop("bare")
    return Finding(
        "Claims behind a history",
        f"{number_of_claims} claims of {SLOTS} among so many finished rows, each in turn with one"
        f" among none. The p50 among {rows[-1][0]} is {number(growth)} times that among none, the"
        " aim is of the p99." + ("" if scale.large else " The quick form stops at 100,000."),
        (Table(("finished rows", "claim p50 ms", "claim p99 ms"), tuple(rows)),),
        ratios,
        told,
    )


def far_future(cluster: Cluster, scale: Scale) -> Finding:
    """Claims beside rows of a more urgent class that are not due for a month."""
    del scale
    bare, far = cluster.postlease("bare"), cluster.postlease("far")
    for home in (bare, far):
        wait_on(home.owner, (CLAIMS + 1) * SLOTS)
    due_in_a_month(far.owner, FAR)
    for home in (bare, far):
        cluster.calm(home.owner)
    with claimer(bare) as without, claimer(far) as beside:
        for _ in range(CLAIMS):
            without.claim()
            beside.claim()
    more = percentile(beside.milliseconds, 50) - percentile(without.milliseconds, 50)
    cluster.drop("far")
    cluster.drop("bare")
    return Finding(
        "Claims beside far-future rows",
        f"{FAR:,} auth messages that are due in a month; a claim takes {number(more)} ms more.",
        (
            Table(
                ("far-future rows", "claim p50 ms", "claim p99 ms"),
                (
                    ("0", *_milliseconds(without.milliseconds)),
                    (f"{FAR:,}", *_milliseconds(beside.milliseconds)),
                ),
            ),
        ),
        {"claim_far_future": of_percentiles(beside.milliseconds, without.milliseconds, 50)},
        {"milliseconds_more": more},
    )


def old_snapshot(cluster: Cluster, scale: Scale) -> Finding:
    """Claims, authorizations and records of 100,000 messages while somebody holds a snapshot."""
    messages = UNDER_SNAPSHOT if scale.large else UNDER_SNAPSHOT // 5
    free, held = cluster.postlease("free"), cluster.postlease("held")
    for home in (free, held):
        wait_on(home.owner, messages + SLOTS)
        cluster.calm(home.owner)
    rows: list[tuple[str, ...]] = []
    with (
        psycopg.connect(held.owner) as holder,
        claimer(free) as without,
        claimer(held) as under,
    ):
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT count(*) FROM postlease.users")
        for first in range(0, messages, EVERY):
            for one in (without, under):
                one.milliseconds.clear()
            for _ in range(EVERY // SLOTS):
                for one in (without, under):
                    one.finish(one.claim())
            medians = [percentile(one.milliseconds, 50) for one in (without, under)]
            rows.append((f"{first + EVERY:,}", *map(number, medians)))
            for home in (free, held):
                with psycopg.connect(home.owner, autocommit=True) as connection:
                    connection.execute("VACUUM postlease.email_messages")
        holder.rollback()
    cluster.drop("free")
    cluster.drop("held")
    return Finding(
        "Claims under an old snapshot",
        f"{messages:,} messages are sent while a transaction holds a snapshot from before;"
        f" each step of {SLOTS} in turn with one where nobody does. VACUUM after each {EVERY:,}.",
        (Table(("after messages", "claim p50 ms", "with an old snapshot"), tuple(rows)),),
        {"claim_p50_old_snapshot": of_percentiles(under.milliseconds, without.milliseconds, 50)},
    )


@contextlib.contextmanager
def claimer(home: Home) -> Iterator[Claimer]:
    """Claims as the application, on a connection of its own, after one that does not count."""
    with connect(home.application) as connection:
        one = Claimer(connection, outbox.Floors(), [])
        one.finish(one.claim())
        one.milliseconds.clear()
        yield one


def _quantiles(milliseconds: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(milliseconds, percent) for percent in (50, 99)}


def _milliseconds(milliseconds: Sequence[float]) -> tuple[str, str]:
    return number(percentile(milliseconds, 50)), number(percentile(milliseconds, 99))
