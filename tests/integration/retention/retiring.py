"""Retention in a process of its own, to be killed: `python -m …retention.retiring <JSON>`.

The JSON says `url` (the application's login), `mode`, `chunk`; the environment is a deployment's.
Writes a line to its standard error before each chunk.
"""

from __future__ import annotations

import json
import sys

from postlease import retention
from postlease.config import settings
from postlease.database import Database


def main() -> None:
    """Run, and tell each look."""
    asked = json.loads(sys.argv[1])
    database = Database(lambda *, refresh: asked["url"])

    def has_time() -> bool:
        print("chunk", file=sys.stderr, flush=True)  # noqa: T201
        return True

    rules = retention.Rules(asked["mode"], settings().redact_after)
    retention.run(
        database, age=settings().retention, has_time=has_time, chunk=asked["chunk"], rules=rules
    )
    database.discard()


if __name__ == "__main__":
    main()
