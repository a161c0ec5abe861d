"""What every flow stands on: a transaction that waits for nobody long, the keys and the pepper."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, LiteralString

from postlease import secret_store, tokens
from postlease.config import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postlease.database import Connection, Database

# The second of two equal requests waits this long for the first; whoever calls learns soon enough
# that a request cannot be served now.
WAIT: LiteralString = """-- accounts.wait
SELECT set_config('lock_timeout', '2s', true)
"""


@contextlib.contextmanager
def transaction(database: Database) -> Iterator[Connection]:
    """One transaction whose every wait for a lock ends after two seconds with UnavailableError."""
    with database.transaction() as connection:
        connection.execute(WAIT)
        yield connection


def key_ring() -> tokens.KeyRing:
    """The token keys. Reads the secret store: never inside a transaction."""
    return tokens.KeyRing.from_secret(secret_store.read_json(settings().token_keys_secret_arn))


def pepper() -> bytes:
    """The pepper of all digests. Reads the secret store: never inside a transaction."""
    return tokens.pepper(secret_store.read_text(settings().pepper_secret_arn))
