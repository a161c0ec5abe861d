"""Another application's own way into the database, as its operator would make it."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from psycopg import sql
from psycopg.conninfo import make_conninfo

from postlease.database import connect

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def login(owner_url: str) -> Iterator[str]:
    """How a new login role, a member of postlease_producer and nothing else, logs in."""
    name, password = f"shop_{secrets.token_hex(6)}", secrets.token_hex(16)
    role = sql.Identifier(name)
    with connect(owner_url) as owner:
        owner.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE postlease_producer").format(
                role, sql.Literal(password)
            )
        )
        try:
            yield make_conninfo(owner_url, user=name, password=password)
        finally:
            owner.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s",
                [name],
            )
            owner.execute(sql.SQL("DROP ROLE {}").format(role))
