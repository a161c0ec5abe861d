"""procrastinate: ten at a time, a hundred where the provider takes its time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import line
from procrastinate import App, PsycopgConnector

CONCURRENCY = 100 if line.SECONDS else 10

compose = line.composer() if line.COMPOSES else None
app = App(connector=PsycopgConnector(conninfo=line.URL, min_size=4, max_size=20))


@app.task(name="mail")
async def send(**message: Any) -> None:
    """What a provider does that takes so long."""
    if compose:
        compose(message["to_addresses"][0], message["parameters"])
    if line.SECONDS:
        await asyncio.sleep(line.SECONDS)


async def main() -> None:
    """Fill or drain."""
    logging.disable(logging.CRITICAL)
    async with app.open_async():
        if line.MODE == "fill":
            found = await app.connector.execute_query_one_async(
                "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS is_there"
            )
            if not found["is_there"]:
                await app.schema_manager.apply_schema_async()
            await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
            for numbers in line.batches():
                await send.batch_defer_async(*map(line.payload, numbers))
            return
        line.ready()
        await app.run_worker_async(
            concurrency=CONCURRENCY, wait=False, listen_notify=False, install_signal_handlers=False
        )
        line.done()


asyncio.run(main())
