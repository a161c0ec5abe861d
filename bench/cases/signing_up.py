"""Signing up: one request in process, and ten times as many as the machine can serve."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.measuring.children import Child
from bench.measuring.cluster import ROOT
from bench.measuring.figures import Figure, percentile
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from local.stack import Stack

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

REQUESTS = 300
CALLERS = 4
SUSTAINED_SECONDS = 5.0
OVERLOAD = 10
OVERLOAD_SECONDS = 30.0
PATIENCE_SECONDS = 35.0
CLEAN = {202, 429, 503}
_UNLIMITED = {"CLIENT_LIMIT_PER_MINUTE": "0", "CLIENT_LIMIT_PER_HOUR": "0"}


class LostError(Exception):
    """What was accepted is not there, or an answer was not clean."""


def in_process(cluster: Cluster, scale: Scale) -> Finding:
    """The function's handler against the SQL that it sends, request by request in turn."""
    del scale
    home, twin = cluster.postlease("signups"), cluster.postlease("twin")
    login = conninfo_to_dict(home.application)
    secret = {
        "host": login["host"],
        "port": str(login["port"]),
        "dbname": login["dbname"],
        "username": login["user"],
        "password": login["password"],
    }
    asked = {"login": secret, "url": twin.application, "requests": REQUESTS}
    with (
        tempfile.TemporaryDirectory() as folder,
        Child(
            [sys.executable, "-m", "bench.workers.signups", json.dumps(asked)],
            folder=ROOT,
            log=Path(folder) / "signups.log",
            environment={"PYTHONPATH": f"{ROOT}:{ROOT / 'layers' / 'postlease' / 'python'}"},
        ) as child,
    ):
        child.start()
        took = child.done()
    own, bare = took["own"], took["bare"]
    third = REQUESTS // 3
    parts = [
        percentile(own[at : at + third], 50) / percentile(bare[at : at + third], 50)
        for at in (0, third, 2 * third)
    ]
    cluster.drop("signups")
    cluster.drop("twin")
    rows = [
        (what, *(number(percentile(times, percent)) for percent in (50, 95, 99)))
        for what, times in (("handler", own), ("its SQL alone", bare))
    ]
    return Finding(
        "A sign-up in process",
        f"{REQUESTS} sign-ups of new addresses through the function's handler (client limits on,"
        f" doorbell off), and after each its {took['statements']} statements again, in transactions"
        " as its own were, on a twin of its database.",
        (Table(("sign-up", "p50 ms", "p95 ms", "p99 ms"), tuple(rows)),),
        {
            "signup_vs_sql": Figure(
                percentile(own, 50) / percentile(bare, 50), min(parts), max(parts)
            )
        },
    )


@dataclass(slots=True)
class Load:
    """What was asked of the API, and how it answered."""

    answers: Counter[int] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    odd: Counter[str] = field(default_factory=Counter)


def overload(cluster: Cluster, scale: Scale) -> Finding:
    """Ten times the rate that a few callers get, for half a minute; then all is counted."""
    del scale
    with Stack(database_url=cluster.url, settings=_UNLIMITED, timeouts={}) as stack:
        asyncio.run(_closed_loop(stack.url, Load(), seconds=1.0, prefix="warm"))
        calm = Load()
        seconds = asyncio.run(
            _closed_loop(stack.url, calm, seconds=SUSTAINED_SECONDS, prefix="calm")
        )
        rate = calm.answers[202] / seconds
        tell(f"  sustained: {number(rate)} sign-ups/s; now {OVERLOAD} times as many")
        load = Load()
        asyncio.run(_open_loop(stack.url, load, rate=rate * OVERLOAD))
        with psycopg.connect(stack.database_url) as connection:
            [found] = connection.execute(
                "SELECT count(*) FROM postlease.email_messages"
                " WHERE to_addresses[1] = ANY (%s) AND template = 'verify_email'",
                [load.accepted],
            ).fetchone() or (0,)
    unclean = {status: n for status, n in load.answers.items() if status not in CLEAN}
    lost = len(load.accepted) - found
    answered = ", ".join(f"{n:,} x {status}" for status, n in sorted(load.answers.items()))
    if lost or unclean:
        raise LostError(f"{lost} lost of {len(load.accepted)}; answers: {answered}")
    accepted = f"{load.answers[202] / OVERLOAD_SECONDS:.0f}/s"
    return Finding(
        "Sign-ups beyond what the machine can serve",
        f"Through the local gateway, functions in processes of their own, doorbell off: {CALLERS}"
        f" callers one after the other, then {OVERLOAD} times their rate for"
        f" {OVERLOAD_SECONDS:.0f} s, a connection each. Of the accepted every mail was found in the"
        " database. Callers and gateway share the machine with what they measure:"
        f" {sum(load.odd.values()):,} connections came to no answer within"
        f" {PATIENCE_SECONDS:.0f} s or were cut.",
        (
            Table(
                ("load", "asked/s", "202/s", "answers", "p50 ms", "p99 ms"),
                (
                    (
                        f"{CALLERS} callers",
                        number(rate),
                        number(rate),
                        ", ".join(f"{n:,} x {status}" for status, n in calm.answers.items()),
                        number(percentile(calm.milliseconds, 50)),
                        number(percentile(calm.milliseconds, 99)),
                    ),
                    (
                        f"{OVERLOAD} times",
                        number(rate * OVERLOAD),
                        accepted,
                        answered,
                        number(percentile(load.milliseconds, 50)),
                        number(percentile(load.milliseconds, 99)),
                    ),
                ),
            ),
        ),
        figures={
            "sustained_per_second": rate,
            "answers": {str(status): n for status, n in load.answers.items()},
            "no_answer": dict(load.odd),
            "lost": lost,
        },
    )


async def _closed_loop(url: str, load: Load, *, seconds: float, prefix: str) -> float:
    """A few callers, one request after the other; the seconds that it took."""
    started = time.perf_counter()

    async def call(caller: int) -> None:
        number = 0
        while time.perf_counter() - started < seconds:
            await _sign_up(url, load, f"{prefix}-{caller}-{number}@example.com")
            number += 1

    await asyncio.gather(*map(call, range(CALLERS)))
    return time.perf_counter() - started


async def _open_loop(url: str, load: Load, *, rate: float) -> None:
    """So many a second, whatever becomes of those before."""
    started = time.perf_counter()
    calls: set[asyncio.Task[None]] = set()
    number = 0
    while (passed := time.perf_counter() - started) < OVERLOAD_SECONDS:
        while number < passed * rate:
            call = asyncio.create_task(_sign_up(url, load, f"many-{number}@example.com"))
            calls.add(call)
            call.add_done_callback(calls.discard)
            number += 1
        await asyncio.sleep(0.005)
    await asyncio.gather(*calls)


async def _sign_up(url: str, load: Load, email: str) -> None:
    where = urlsplit(url)
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            status = await _post(
                where.hostname or "", where.port or 0, json.dumps({"email": email})
            )
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        load.odd[type(error).__name__] += 1
        return
    load.milliseconds.append((time.perf_counter() - started) * 1_000)
    load.answers[status] += 1
    if status == 202:
        load.accepted.append(email)


async def _post(host: str, port: int, body: str) -> int:
    """The status of the answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(
            f"POST /v1/signups HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        line = await reader.readuntil(b"\r\n")
        await reader.read()
        return int(line.split()[1])
    finally:
        writer.close()
