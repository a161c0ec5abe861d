"""pgqueuer on an asyncpg pool and uvloop, with tables that survive a crash, until it is drained."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import asyncpg
import line
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.types import QueueExecutionMode


async def fill(pool: asyncpg.Pool) -> None:
    """Make the schema if need be, and the queue hold what is asked."""
    queries = Queries(AsyncpgPoolDriver(pool))
    if not await queries.schema_is_installed():
        await queries.install()
    await pool.execute("TRUNCATE pgqueuer, pgqueuer_log")
    for numbers in line.batches():
        payloads = [json.dumps(line.payload(number)).encode() for number in numbers]
        await queries.enqueue(["mail"] * len(payloads), payloads, [0] * len(payloads))


async def drain(pool: asyncpg.Pool) -> None:
    """Send what there is."""
    queue = PgQueuer.from_asyncpg_pool(pool)
    compose = line.composer() if line.COMPOSES else None

    @queue.entrypoint("mail")
    async def send(job: Any) -> None:
        if compose:
            asked = json.loads(job.payload)
            compose(asked["to_addresses"][0], asked["parameters"])
        if line.SECONDS:
            await asyncio.sleep(line.SECONDS)

    line.ready()
    limits = (
        {"batch_size": 25, "max_concurrent_tasks": 100} if line.SECONDS else {"batch_size": 500}
    )
    await queue.run(mode=QueueExecutionMode.drain, **limits)
    line.done()


async def main() -> None:
    """Fill or drain."""
    logging.disable(logging.CRITICAL)
    async with asyncpg.create_pool(line.URL, min_size=4, max_size=10) as pool:
        await (fill if line.MODE == "fill" else drain)(pool)


uvloop.run(main())
