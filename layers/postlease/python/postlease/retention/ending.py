"""When a run had removed all that was due: told by others, as a missed run tells nothing.

The clock begins with the migration that made it, so that a new deployment has a whole day and more
before anybody misses its first night.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from postlease.database import translated_errors

if TYPE_CHECKING:
    from postlease.database import Connection

END: LiteralString = """-- retention.end
INSERT INTO postlease.retention_duties AS d (duty, ended_at)
VALUES ('run', now())
ON CONFLICT (duty) DO UPDATE SET ended_at = excluded.ended_at
"""

SINCE_END: LiteralString = """-- retention.since_end
SELECT extract(epoch FROM now() - d.ended_at)::float8 AS seconds
FROM postlease.retention_duties AS d
WHERE d.duty = 'run'
"""


def end(connection: Connection) -> None:
    """Note that nothing that was due is left, and commit."""
    with translated_errors():
        connection.execute(END)


def seconds_since_end(connection: Connection) -> float:
    """How long ago nothing that was due was left, or the clock began; 0 where nobody knows."""
    with translated_errors():
        row = connection.execute(SINCE_END).fetchone()
    return float(row["seconds"] or 0) if row else 0.0
