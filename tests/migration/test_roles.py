"""Who may do what: literal tables, held against the catalog."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, LiteralString, cast

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from local import postgres
from postlease import migrations, outbox
from postlease.database import connect
from postlease.errors import DatabaseError
from tests import arrange, producers
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postlease.database import Connection

# Beside the owner. A function or a table that is missing here is for the owner alone.
MAY_EXECUTE = {
    "attempts_kept": {"postlease_application"},
    "attempts_with": {"postlease_application"},
    "attachments_tag": {"postlease_application", "postlease_producer"},
    "broken_content": {"postlease_application"},
    "enqueue_auth_email": {"postlease_application"},
    "enqueue_email": {"postlease_application", "postlease_producer"},
    "enqueue_emails": {"postlease_application", "postlease_producer"},
    "enqueue_for": {"postlease_application"},
    "uuid_v7": {"postlease_application"},
}
MAY_TOUCH = {
    "archive_chunks": {"postlease_application": {"SELECT", "INSERT", "DELETE"}},
    "attachment_deletions": {"postlease_application": {"SELECT", "INSERT", "DELETE"}},
    "email_attachments": {"postlease_application": {"SELECT", "DELETE"}},
    "email_messages": {"postlease_application": {"SELECT", "UPDATE", "DELETE"}},
    "idempotency_keys": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
    "provider_gates": {"postlease_application": {"SELECT", "INSERT", "UPDATE"}},
    "rate_limits": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
    "retention_duties": {"postlease_application": {"SELECT", "INSERT", "UPDATE"}},
    "suppressions": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
    "bounces": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
    "users": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
    "verification_tokens": {"postlease_application": {"SELECT", "INSERT", "UPDATE", "DELETE"}},
}
SETTINGS = {
    "jit": "off",
    "statement_timeout": "10s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "15s",
    "idle_session_timeout": "15min",
    "TimeZone": "UTC",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}

FUNCTION_GRANTS: LiteralString = """
SELECT p.proname AS name, coalesce(r.rolname, 'PUBLIC') AS grantee, a.is_grantable
FROM pg_proc AS p
CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
LEFT JOIN pg_roles AS r ON r.oid = a.grantee
WHERE p.pronamespace = 'postlease'::regnamespace AND a.grantee <> p.proowner
"""
RELATION_GRANTS: LiteralString = """
SELECT c.relname AS name, coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type AS privilege,
       a.is_grantable
FROM pg_class AS c
CROSS JOIN aclexplode(coalesce(c.relacl, acldefault(
    CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))) AS a
LEFT JOIN pg_roles AS r ON r.oid = a.grantee
WHERE c.relnamespace = 'postlease'::regnamespace AND c.relkind <> 'i' AND a.grantee <> c.relowner
"""
SCHEMA_GRANTS: LiteralString = """
SELECT coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type AS privilege, a.is_grantable
FROM pg_namespace AS n
CROSS JOIN aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a
LEFT JOIN pg_roles AS r ON r.oid = a.grantee
WHERE n.nspname = 'postlease' AND a.grantee <> n.nspowner
"""


@pytest.fixture(scope="module")
def producer(owner_url: str) -> Iterator[Connection]:
    """A connection of a producer's login."""
    with producers.login(owner_url) as login, connect(login) as connection:
        yield connection


def refused(connection: Connection, statement: str | sql.Composed) -> None:
    """Assert that the role may not."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(cast("LiteralString", statement))


def tables(connection: Connection) -> list[str]:
    rows = connection.execute(
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = 'postlease'::regnamespace AND relkind = 'r'"
    )
    return [row["relname"] for row in rows]


def test_the_table_of_functions_is_what_the_catalog_says(owner_connection: Connection) -> None:
    granted: dict[str, set[str]] = {}
    for row in owner_connection.execute(FUNCTION_GRANTS):
        assert not row["is_grantable"]
        granted.setdefault(row["name"], set()).add(row["grantee"])
    assert granted == MAY_EXECUTE


def test_the_table_of_privileges_is_what_the_catalog_says(owner_connection: Connection) -> None:
    granted: dict[str, dict[str, set[str]]] = {}
    for row in owner_connection.execute(RELATION_GRANTS):
        assert not row["is_grantable"]
        by_role = granted.setdefault(row["name"], {})
        by_role.setdefault(row["grantee"], set()).add(row["privilege"])
    assert granted == MAY_TOUCH


def test_no_column_is_granted_on_its_own(owner_connection: Connection) -> None:
    rows = owner_connection.execute(
        "SELECT a.attrelid::regclass, a.attname FROM pg_attribute AS a"
        " JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = 'postlease'::regnamespace AND a.attacl IS NOT NULL"
    )
    assert rows.fetchall() == []


def test_both_roles_may_use_the_schema_and_nobody_may_create_in_it(
    owner_connection: Connection,
) -> None:
    granted = {
        (row["grantee"], row["privilege"], row["is_grantable"])
        for row in owner_connection.execute(SCHEMA_GRANTS)
    }
    assert granted == {
        ("postlease_application", "USAGE", False),
        ("postlease_producer", "USAGE", False),
    }


def test_the_roles_have_no_powers_of_their_own(owner_connection: Connection) -> None:
    rows = owner_connection.execute(
        "SELECT rolname, rolcanlogin FROM pg_roles"
        " WHERE rolname IN ('postlease_application', 'postlease_producer')"
        "   AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
    )
    assert {row["rolname"]: row["rolcanlogin"] for row in rows} == {
        "postlease_application": True,
        "postlease_producer": False,
    }
    memberships = owner_connection.execute(
        "SELECT roleid::regrole::text FROM pg_auth_members WHERE member IN"
        " ('postlease_application'::regrole, 'postlease_producer'::regrole)"
    )
    assert memberships.fetchall() == []


def test_every_security_definer_function_has_a_fixed_search_path_and_reads_patterns_as_they_are(
    owner_connection: Connection,
) -> None:
    rows = owner_connection.execute(
        "SELECT proname, proconfig FROM pg_proc"
        " WHERE pronamespace = 'postlease'::regnamespace AND prosecdef"
    ).fetchall()
    assert {row["proname"] for row in rows} == {
        "enqueue_auth_email",
        "enqueue_email",
        "enqueue_emails",
        "enqueue_for",
    }
    for row in rows:
        assert row["proconfig"] == [
            "search_path=pg_catalog, pg_temp",
            "standard_conforming_strings=on",
        ]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM {}",
        "INSERT INTO {} DEFAULT VALUES",
        "DELETE FROM {}",
        "TRUNCATE {}",
        "COPY {} TO STDOUT",
        "CREATE INDEX ours ON {} ((1))",
    ],
)
def test_a_producer_can_touch_no_table(
    owner_connection: Connection, producer: Connection, statement: LiteralString
) -> None:
    names = tables(owner_connection)
    assert set(names) == {*MAY_TOUCH, "schema_migrations"}
    for name in names:
        refused(producer, sql.SQL(statement).format(sql.Identifier("postlease", name)))


def test_a_producer_can_update_no_column(
    owner_connection: Connection, producer: Connection
) -> None:
    for name in tables(owner_connection):
        columns = owner_connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
            " AND attgenerated = '' AND attidentity = '' AND NOT attisdropped",
            [f"postlease.{name}"],
        ).fetchall()
        for column in columns:
            refused(
                producer,
                sql.SQL("UPDATE {} SET {} = DEFAULT").format(
                    sql.Identifier("postlease", name), sql.Identifier(column["attname"])
                ),
            )


@pytest.mark.parametrize(
    "call",
    [
        "postlease.enqueue_auth_email('account_exists', gen_random_uuid())",
        "postlease.enqueue_for('another', '[]')",
        "postlease.attempts_kept('[]')",
        "postlease.attempts_with(NULL, 'sent', NULL, NULL, false)",
        "postlease.uuid_v7()",
        "postlease.drop_other_signatures(0::regprocedure)",
        "postlease.check_message_content()",
        "postlease.broken_content('{}', '{}')",
        "postlease.broken_mailbox('')",
        "postlease.broken_names('{}', '{}')",
        "postlease.broken_tags('{}')",
        "postlease.broken_attachments('another', '[]')",
        "postlease.moment_of('')",
        "postlease.refuse_message('template')",
        "nextval('postlease.attachment_deletions_id_seq')",
    ],
)
def test_a_producer_can_call_nothing_but_its_contract(producer: Connection, call: str) -> None:
    refused(producer, f"SELECT {call}")


def test_a_producer_can_call_its_contract(producer: Connection) -> None:
    assert arrange.enqueue(producer)
    assert producer.execute("SELECT postlease.enqueue_emails('[]')").fetchall() == []
    assert producer.execute("SELECT postlease.attachments_tag()").fetchone()


def test_a_producer_can_make_nothing_in_the_schema(producer: Connection) -> None:
    refused(producer, "CREATE TABLE postlease.theirs (id integer)")
    refused(
        producer,
        "CREATE OR REPLACE FUNCTION postlease.uuid_v7() RETURNS uuid LANGUAGE sql AS 'SELECT NULL'",
    )


def test_a_login_that_is_no_producer_does_not_even_see_the_schema(
    owner_url: str, owner_connection: Connection
) -> None:
    with producers.login(owner_url) as login, connect(login) as stranger:
        owner_connection.execute(
            sql.SQL("REVOKE postlease_producer FROM {}").format(sql.Identifier(stranger.info.user))
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema postlease"):
            arrange_raw(stranger)


def arrange_raw(connection: Connection) -> None:
    connection.execute("SELECT postlease.enqueue_email('receipt', '{a@example.com}')")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO postlease.email_messages DEFAULT VALUES",
        "INSERT INTO postlease.email_attachments DEFAULT VALUES",
        "DELETE FROM postlease.provider_gates",
        "TRUNCATE postlease.email_messages",
        "SELECT FROM postlease.schema_migrations",
        "SELECT postlease.drop_other_signatures(0::regprocedure)",
        "ALTER TABLE postlease.email_messages DROP CONSTRAINT email_messages_status",
        "CREATE TABLE postlease.theirs (id integer)",
        "SET ROLE postgres",
    ],
)
def test_the_application_can_do_no_more_than_its_code_needs(
    application: Connection, statement: str
) -> None:
    refused(application, statement)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_applications_sessions_run_under_their_roles_settings(
    application: Connection, name: str
) -> None:
    row = application.execute(
        "SELECT current_setting(%s) AS value, source FROM pg_settings WHERE name = %s",
        [name, name],
    ).fetchone()
    assert row == {"value": SETTINGS[name], "source": "database user"}


CANARY = "canary@example.net"


@pytest.fixture(scope="module")
def own_server() -> Iterator[postgres.Server]:
    """A server whose log is ours to read, set to tell as much as an operator may."""
    with postgres.Server(
        log_min_duration_statement="0", log_parameter_max_length_on_error="-1"
    ) as server:
        yield server


def log_of(server: postgres.Server) -> Path:
    return server.folder / "log"


def provoke(connection: Connection) -> None:
    """Violate constraints with an address in the row, the key and the parameters."""
    insert: LiteralString = (
        "INSERT INTO postlease.users (email, email_canonical, locale) VALUES (%s, %s, %s)"
    )
    for email, canonical, locale in (
        (CANARY, CANARY, "en"),
        (CANARY, CANARY, "en"),
        (CANARY, CANARY.upper(), "en"),
        (CANARY, "x", "no such locale"),
        (CANARY, None, "en"),
    ):
        with contextlib.suppress(psycopg.IntegrityError):
            connection.execute(insert, [email, canonical, locale])
    with pytest.raises(DatabaseError):
        outbox.enqueue(connection, template="receipt", to=[CANARY, CANARY], parameters={})
    with pytest.raises(DatabaseError):
        outbox.enqueue(connection, template="../x", to=[CANARY], parameters={})
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / (length(%s::text) - %s)", [CANARY, len(CANARY)])


def test_no_failing_statement_of_the_application_puts_an_address_into_the_servers_log(
    own_server: postgres.Server,
) -> None:
    """The first half shows that the same statements of another role do: the canary sings."""
    url = postgres.create_database(own_server.url, "logged")
    with connect(url) as owner:
        migrations.migrate(owner, SQL)
        migrations.set_application_password(owner, "a-password-of-the-test")
        provoke(owner)
        assert CANARY in log_of(own_server).read_text()
        owner.execute("TRUNCATE postlease.users CASCADE")
    start = log_of(own_server).stat().st_size
    with connect(
        make_conninfo(url, user=migrations.APPLICATION_ROLE, password="a-password-of-the-test")
    ) as application:
        application_pid = application.info.backend_pid
        provoke(application)
    written = log_of(own_server).read_text()[start:]
    assert f"[{application_pid}] ERROR:  " in written
    assert "users_email_canonical_key" in written
    assert CANARY not in written.lower()
    assert "a-password-of-the-test" not in log_of(own_server).read_text()


def test_an_owner_without_superuser_rights_can_migrate_and_let_the_application_in() -> None:
    """Managed databases give out no superuser."""
    with postgres.Server() as server:
        with connect(server.url) as superuser:
            superuser.execute("CREATE ROLE master LOGIN CREATEROLE CREATEDB PASSWORD 'master'")
            superuser.execute("CREATE DATABASE mail OWNER master")
        url = postgres.database_url(server.url, "mail")
        with connect(make_conninfo(url, user="master", password="master")) as master:
            assert migrations.migrate(master, SQL)
            assert migrations.migrate(master, SQL) == []
            migrations.set_application_password(master, "application")
        login = make_conninfo(url, user=migrations.APPLICATION_ROLE, password="application")
        with connect(login) as application:
            arrange.enqueue(application)
            assert len(arrange.claim(application)) == 1
            row = application.execute("SELECT current_setting('jit') AS jit").fetchone()
            assert row == {"jit": "off"}


def test_a_second_database_of_the_same_server_can_be_migrated(
    empty_database: Callable[[], str], owner_url: str, application_password: str
) -> None:
    """Roles belong to the server: the second migration finds them."""
    url = empty_database()
    with connect(url) as owner:
        migrations.migrate(owner, SQL)
    login = make_conninfo(url, user=migrations.APPLICATION_ROLE, password=application_password)
    with connect(login) as application:
        row = application.execute("SELECT current_setting('lock_timeout') AS t").fetchone()
        assert row == {"t": "3s"}
