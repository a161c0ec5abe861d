"""Nothing of an earlier test is left: in a database, in a local stack."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack import Stack
    from postlease.database import Connection

# What refers comes before what it refers to; an attachment that goes leaves a deletion behind.
TABLES = (
    "email_attachments",
    "email_messages",
    "verification_tokens",
    "users",
    "attachment_deletions",
    "idempotency_keys",
    "rate_limits",
    "suppressions",
    "bounces",
    "provider_gates",
    "archive_chunks",
    "retention_duties",
)

# Tables as they are made: the planner knows nothing of them.
ANEW = f"TRUNCATE {', '.join(f'postlease.{table}' for table in TABLES)}"

# It makes forty new files and takes twenty times as long as deleting the few rows of most tests;
# but what a test of thousands left dead would slow those after it.
CLEAN = f"""
DO $$
BEGIN
    IF (SELECT sum(pg_relation_size(c.oid)) > 1000000 FROM pg_class AS c
        WHERE c.relnamespace = 'postlease'::regnamespace) THEN
        {ANEW};
    ELSE
        {" ".join(f"DELETE FROM postlease.{table};" for table in TABLES)}
    END IF;
END
$$
"""  # noqa: S608 - constants


@contextmanager
def emptied(stack: Stack) -> Iterator[Connection]:
    """The owner's connection to the stack's database; no row, mail or fault of before is left."""
    stack.provider.inbox.clear()
    stack.set_faults("accept")
    stack.set_events()
    with psycopg.connect(stack.database_url, autocommit=True, row_factory=dict_row) as owner:
        owner.execute(CLEAN)
        yield owner
