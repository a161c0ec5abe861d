"""No test finds what an earlier one left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.emptying import TABLES

if TYPE_CHECKING:
    from postlease.database import Connection


def test_every_table_is_emptied_but_the_list_of_migrations(owner: Connection) -> None:
    found = owner.execute(
        "SELECT c.relname AS name FROM pg_class AS c"
        " WHERE c.relnamespace = 'postlease'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    assert {row["name"] for row in found} - {"schema_migrations"} == set(TABLES)
