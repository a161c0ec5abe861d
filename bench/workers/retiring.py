"""Retention in a process of its own: `python -m bench.workers.retiring <JSON>`.

The JSON says `url` (the application's login), `days` that messages are kept, and `seconds` that the
run may take. Says how many messages left, and the milliseconds of each chunk.
"""

from __future__ import annotations

import itertools
import time
from datetime import timedelta

from bench.workers import arranging


def main() -> None:
    """Be ready, delete for so long, say how it went."""
    line, asked = arranging.Line(), arranging.given()
    arranging.deployed()
    from postlease import retention  # noqa: PLC0415
    from postlease.database import Database  # noqa: PLC0415

    database = Database(lambda *, refresh: asked["url"])  # noqa: ARG005
    database.connection()
    if line.ready():
        # Before each chunk the run asks whether there is time for it.
        moments: list[float] = []
        until: float = time.perf_counter() + asked["seconds"]

        def has_time() -> bool:
            moments.append(time.perf_counter())
            return moments[-1] < until

        # Nothing to redact, no key, no window, no entry: a look for each, then the messages.
        rules = retention.Rules(redact_after=timedelta(days=36_500))
        retained = retention.run(
            database, age=timedelta(days=asked["days"]), has_time=has_time, rules=rules
        )
        chunks = -(-retained.messages // retention.CHUNK)
        ends = moments[4 : chunks + 5]
        line.done(
            {
                "messages": retained.messages,
                "chunk": retention.CHUNK,
                "milliseconds": [(end - start) * 1_000 for start, end in itertools.pairwise(ends)],
            }
        )
        line.ready()
    database.discard()


if __name__ == "__main__":
    main()
