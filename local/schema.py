"""`python -m local.schema` writes sql/schema.sql: what all migrations and functions add up to.

The file is there to be read. It loads into an empty database on a server where the two roles
exist, and a test proves that the outcome equals the replayed migrations.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from local import postgres
from local.binaries import find_binaries
from postlease import migrations
from postlease.database import connect

SQL = Path(__file__).parents[1] / "sql"

_HEADER = """\
-- The whole schema in one piece, to read. Written by `make schema`; change sql/migrations or
-- sql/functions instead. The roles and their settings are made by migrations/0001.

"""
_VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
# Settings of the dump's own session, and what names the server, the tool or the moment.
_NOISE = re.compile(
    r"^(--.*|SET .*;|\\(un)?restrict .*|SELECT pg_catalog\.set_config.*)\n", re.MULTILINE
)


def dump(url: str) -> str:
    """The schema of the migrated database behind url as SQL: the same text at every call."""
    parts = conninfo_to_dict(url)
    login = {variable: str(parts[key]) for key, variable in _VARIABLES.items()}
    made = subprocess.run(
        [
            find_binaries() / "pg_dump",
            "--schema-only",
            "--no-owner",
            "--schema=postlease",
            str(parts["dbname"]),
        ],
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"} | login,
        stdout=subprocess.PIPE,
        check=True,
    )
    bodies: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        bodies.append(match[0])
        return f"body {len(bodies) - 1} body"

    # A function's body may hold comments of its own: those stay.
    text = re.sub(r"(\$_?\$).*?\1", put_aside, made.stdout.decode(), flags=re.DOTALL)
    text = re.sub(r"\n{2,}", "\n\n", _NOISE.sub("", text)).strip()
    return _HEADER + re.sub(r"body (\d+) body", lambda m: bodies[int(m[1])], text) + "\n"


def main() -> int:
    """Replay sql/ on a throw-away server and write the snapshot."""
    with postgres.Server() as server:
        url = postgres.create_database(server.url, "snapshot")
        with connect(url) as connection:
            migrations.migrate(connection, SQL)
        SQL.joinpath("schema.sql").write_text(dump(url), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
