"""What every request for mail stands on: a transaction that waits for nobody long, the pepper."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, LiteralString

from postlease import secret_store, tokens
from postlease.config import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection, Database

# As long as the second of two equal requests waits for the first.
WAIT: LiteralString = """-- messages.wait
SELECT set_config('lock_timeout', '2s', true)
"""


@contextlib.contextmanager
def transaction(database: Database) -> Iterator[Connection]:
    """One transaction whose every wait for a lock ends after two seconds with UnavailableError."""
    with database.transaction() as connection:
        connection.execute(WAIT)
        yield connection


def pepper() -> bytes:
    """The pepper of all digests. Reads the secret store: never inside a transaction."""
    return tokens.pepper(secret_store.read_text(settings().pepper_secret_arn))
