"""A whole run of retention, to be killed: `python -m bench.workers.keeping <JSON>`.

The JSON says `url` (the application's login), `endpoint` and `bucket` of the storage, `mode`, and
`days` that messages are kept. Says what left.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from bench.workers import arranging


def main() -> None:
    """Be ready, run to the end, say what left."""
    line, asked = arranging.Line(), arranging.given()
    arranging.deployed(AWS_ENDPOINT_URL=asked["endpoint"], ATTACHMENTS_BUCKET=asked["bucket"])
    from postlease import retention  # noqa: PLC0415
    from postlease.database import Database  # noqa: PLC0415

    database = Database(lambda *, refresh: asked["url"])  # noqa: ARG005
    database.connection()
    if line.ready():
        retained = retention.run(
            database,
            age=timedelta(days=asked["days"]),
            has_time=lambda: True,
            rules=retention.Rules(asked["mode"]),
        )
        line.done(asdict(retained))
        line.ready()
    database.discard()


if __name__ == "__main__":
    main()
