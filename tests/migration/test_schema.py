"""sql/schema.sql is what the migrations add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString, cast

import pytest

from local import postgres
from local.schema import dump
from postlease.database import connect
from tests.conftest import SQL
from tests.migration import catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.database import Connection


def snapshot() -> LiteralString:
    return cast("LiteralString", SQL.joinpath("schema.sql").read_text("utf-8"))


def test_the_snapshot_makes_the_schema_that_the_migrations_make(
    owner_connection: Connection, empty_database: Callable[[], str]
) -> None:
    """When it fails: `make schema` writes the snapshot anew."""
    with connect(empty_database()) as connection:
        connection.execute(snapshot())
        differing = catalog.differences(catalog.read(owner_connection), catalog.read(connection))
    assert differing == []


# One change for each thing that a comparison might overlook.
CHANGES: dict[str, LiteralString] = {
    "default": "ALTER TABLE postlease.email_messages ALTER max_attempts SET DEFAULT 7",
    "nullability": "ALTER TABLE postlease.email_messages ALTER locale DROP NOT NULL",
    "type": "ALTER TABLE postlease.email_messages ALTER refunded_count TYPE bigint",
    "column": "ALTER TABLE postlease.users ADD nickname text",
    "constraint": "ALTER TABLE postlease.email_messages DROP CONSTRAINT email_messages_counts",
    "constraint's rule": """
        ALTER TABLE postlease.suppressions DROP CONSTRAINT suppressions_reason;
        ALTER TABLE postlease.suppressions ADD CONSTRAINT suppressions_reason
            CHECK (reason IN ('bounce', 'complaint'))
        """,
    "cascade": """
        ALTER TABLE postlease.email_attachments DROP CONSTRAINT email_attachments_message_fkey;
        ALTER TABLE postlease.email_attachments ADD CONSTRAINT email_attachments_message_fkey
            FOREIGN KEY (message_id) REFERENCES postlease.email_messages
        """,
    "index": "DROP INDEX postlease.email_messages_unfinished",
    "index's condition": """
        DROP INDEX postlease.email_messages_unfinished;
        CREATE INDEX email_messages_unfinished
            ON postlease.email_messages (priority, available_at, id)
        """,
    "function's security": "ALTER FUNCTION postlease.uuid_v7() SECURITY DEFINER",
    "function's search path": "ALTER FUNCTION postlease.uuid_v7() RESET search_path",
    "function's body": """
        CREATE OR REPLACE FUNCTION postlease.uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE
            PARALLEL SAFE SET search_path = pg_catalog, pg_temp
            AS 'SELECT gen_random_uuid()'
        """,
    "overload": "CREATE FUNCTION postlease.uuid_v7(integer) RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid'",  # noqa: E501
    "public execution": "GRANT EXECUTE ON FUNCTION postlease.uuid_v7() TO PUBLIC",
    "table privilege": "GRANT INSERT ON postlease.email_messages TO postlease_application",
    "column privilege": "GRANT SELECT (email) ON postlease.users TO postlease_producer",
    "schema privilege": "GRANT CREATE ON SCHEMA postlease TO postlease_producer",
    "storage parameter": "ALTER TABLE postlease.email_messages SET (fillfactor = 90)",
    "trigger": "DROP TRIGGER email_messages_content ON postlease.email_messages",
    "disabled trigger": "ALTER TABLE postlease.email_messages DISABLE TRIGGER USER",
}


@pytest.fixture(scope="module")
def copy(owner_url: str, empty_database: Callable[[], str]) -> str:  # the first makes the roles
    """The URL of a database made from the snapshot, for tests that change it and roll back."""
    url = empty_database()
    with connect(url) as connection:
        connection.execute(snapshot())
    return url


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_comparison_sees_every_kind_of_difference(copy: str, change: LiteralString) -> None:
    with connect(copy) as connection, connection.transaction(force_rollback=True):
        before = catalog.read(connection)
        connection.execute(change)
        assert catalog.differences(before, catalog.read(connection)) != []


def test_the_snapshot_is_written_the_same_at_every_call(copy: str) -> None:
    with postgres.Server() as server:
        with connect(server.url) as connection:
            connection.execute("CREATE ROLE postlease_application; CREATE ROLE postlease_producer")
        url = postgres.create_database(server.url, "copy")
        with connect(url) as connection:
            connection.execute(snapshot())
        first, second = dump(url), dump(url)
    assert first == second
    assert "postlease.enqueue_email" in first
    assert not [line for line in first.splitlines()[3:] if line.startswith(("--", "SET ", "\\"))]
