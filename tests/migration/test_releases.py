"""Each migration works with the code of the release before: what it said is said to this schema."""

from __future__ import annotations

import secrets
import tomllib
from typing import TYPE_CHECKING, LiteralString

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from local import postgres
from postlease import migrations
from postlease.database import Database, connect
from tests import producers
from tests.conftest import ROOT, SQL
from tests.emptying import CLEAN
from tests.releases import snapshot
from tests.releases.actors import Actors
from tests.releases.collecting import statements
from tests.releases.producing import OF_PRODUCERS
from tests.releases.recording import record
from tests.releases.replaying import BrokenError, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postlease.database import Connection
    from tests.releases.snapshot import Snapshot

TABLES: LiteralString = "SELECT tablename FROM pg_tables WHERE schemaname = 'postlease'"
RELEASES = snapshot.folders()
MENDING = (
    "this schema breaks the code of a release that runs while it is deployed: keep what that code"
    " uses for one release more (docs/upgrading.md). If it is the release that is still being made,"
    " `make snapshot` writes it anew"
)


@pytest.fixture(scope="module")
def fresh(
    server_url: str, empty_database: Callable[[], str], application_password: str
) -> Iterator[Callable[[], dict[str, str]]]:
    """Makes migrated, empty databases: how each actor logs in there, copied from one."""
    template = empty_database()
    with connect(template) as connection:
        migrations.migrate(connection, SQL)
        migrations.set_application_password(connection, application_password)
    name = template.rpartition("/")[2]
    made: list[str] = []
    with producers.login(server_url) as producer:

        def copy() -> dict[str, str]:
            made.append(f"postlease_test_{secrets.token_hex(6)}")
            url = postgres.create_database(server_url, made[-1], template=name)
            application = make_conninfo(
                url, user=migrations.APPLICATION_ROLE, password=application_password
            )
            return {
                "owner": url,
                "application": application,
                "producer": make_conninfo(producer, dbname=made[-1]),
            }

        yield copy
        for database in made:
            postgres.drop_database(server_url, database)


@pytest.fixture
def told(environment: Callable[..., None], fresh: Callable[[], dict[str, str]]) -> Snapshot:
    """The story of the code as it is, written down."""
    environment(VERIFY_CODES="on")
    logins = fresh()
    database = Database(lambda *, refresh: logins["application"])
    try:
        with connect(logins["owner"]) as owner, connect(logins["producer"]) as producer:
            return record(Actors(database, producer, owner))
    finally:
        database.discard()


def test_every_statement_is_part_of_the_story(told: Snapshot) -> None:
    said = set(told.statements.values())
    assert {where for where, text in statements().items() if text not in said} == set()
    assert set(OF_PRODUCERS) <= said


def test_the_story_is_answered_alike_on_another_database(
    told: Snapshot, fresh: Callable[[], dict[str, str]], tmp_path: Path
) -> None:
    snapshot.write(told, tmp_path)
    assert snapshot.read(tmp_path) == told
    replay(snapshot.read(tmp_path), fresh())


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_what_an_earlier_release_says_is_answered_as_it_was_then(
    folder: Path, fresh: Callable[[], dict[str, str]]
) -> None:
    try:
        replay(snapshot.read(folder), fresh())
    except BrokenError as error:
        pytest.fail(f"{error}\n{MENDING}")


def test_the_release_that_the_project_names_is_kept() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    assert [folder.name for folder in RELEASES][-1:] == [project["version"]]


# What a migration could do to the code of the release before, and where that shows first.
BREAKING: dict[str, tuple[LiteralString, str, str]] = {
    "a dropped column": (
        "ALTER TABLE postlease.email_messages DROP COLUMN reaped_count CASCADE",
        "outbox.suspects_due",
        "reaped_count does not exist",
    ),
    "a renamed column": (
        "ALTER TABLE postlease.provider_gates RENAME pause TO waits",
        "gate.take_probe",
        "pause does not exist",
    ),
    "a revoked right": (
        "REVOKE DELETE ON postlease.suppressions FROM postlease_application",
        "suppression.delete",
        "permission denied",
    ),
    "a revoked right of producers": (
        """
        REVOKE EXECUTE ON FUNCTION postlease.enqueue_emails(jsonb) FROM postlease_producer
        """,
        "producer.enqueue_emails",
        "permission denied",
    ),
    "a changed signature": (
        """
        ALTER FUNCTION postlease.enqueue_for(text, jsonb) RENAME TO enqueue_all;
        CREATE FUNCTION postlease.enqueue_for(producer text, messages jsonb, at timestamptz)
            RETURNS TABLE ("position" integer, id uuid, is_new boolean)
            LANGUAGE sql AS 'SELECT f.* FROM postlease.enqueue_all(producer, messages) AS f'
        """,
        "producer.enqueue_email",
        "enqueue_for(name, jsonb) does not exist",
    ),
    "a renamed argument": (
        """
        ALTER FUNCTION postlease.enqueue_auth_email(text, uuid, uuid, jsonb, text, interval)
            RENAME TO auth_email;
        CREATE FUNCTION postlease.enqueue_auth_email(
            template text, account uuid, token_id uuid DEFAULT NULL, parameters jsonb DEFAULT '{}',
            locale text DEFAULT NULL, lifetime interval DEFAULT NULL)
            RETURNS uuid LANGUAGE sql AS
            'SELECT postlease.auth_email(template, account, token_id, parameters, locale, lifetime)'
        """,
        "outbox.enqueue_auth",
        "does not exist",
    ),
    "a renamed result": (
        """
        ALTER FUNCTION postlease.enqueue_emails(jsonb) RENAME TO enqueue_all;
        CREATE FUNCTION postlease.enqueue_emails(messages jsonb)
            RETURNS TABLE ("position" integer, message_id uuid) LANGUAGE sql SECURITY DEFINER
            AS 'SELECT f.* FROM postlease.enqueue_all(messages) AS f';
        GRANT EXECUTE ON FUNCTION postlease.enqueue_emails(jsonb) TO postlease_producer
        """,
        "producer.enqueue_emails",
        'column "id" does not exist',
    ),
    "a result of another type": (
        "ALTER TABLE postlease.provider_gates ALTER failures_in_a_row TYPE bigint",
        "gate.look",
        "failures_in_a_row int4",
    ),
    "a narrower rule": (
        """
        ALTER TABLE postlease.idempotency_keys
            ADD CONSTRAINT narrower CHECK (status_code <> 202) NOT VALID
        """,
        "idempotency.finish",
        "narrower",
    ),
    "a constraint that a statement names": (
        """
        ALTER TABLE postlease.suppressions DROP CONSTRAINT suppressions_pkey;
        CREATE INDEX ON postlease.suppressions (address_digest, reason)
        """,
        "suppression.suppress",
        "ON CONFLICT",
    ),
    "another answer": (
        "CREATE RULE quiet AS ON DELETE TO postlease.rate_limits DO INSTEAD NOTHING",
        "limits.clear",
        "0 rows, not 1",
    ),
}


def keep_quiet(owner: Connection) -> None:
    """Let the server not log the rows that it refuses in this database: they hold addresses."""
    name = sql.Identifier(owner.info.dbname)
    owner.execute(sql.SQL("ALTER DATABASE {} SET log_min_messages = fatal").format(name))


@pytest.mark.parametrize("change", BREAKING, ids=lambda change: change.replace(" ", "-"))
def test_a_change_that_breaks_the_release_before_is_seen(
    change: str, fresh: Callable[[], dict[str, str]]
) -> None:
    migration, statement, why = BREAKING[change]
    logins = fresh()
    with connect(logins["owner"]) as owner:
        keep_quiet(owner)
        owner.execute(migration)
    with pytest.raises(BrokenError) as broken:
        replay(snapshot.read(RELEASES[-1]), logins)
    assert broken.value.name == statement
    assert why in broken.value.why


def test_a_column_that_the_release_before_does_not_fill_is_seen_in_every_table(
    fresh: Callable[[], dict[str, str]],
) -> None:
    kept = snapshot.read(RELEASES[-1])
    logins = fresh()
    with connect(logins["owner"]) as owner:
        keep_quiet(owner)
        for row in owner.execute(TABLES).fetchall():
            table = sql.Identifier("postlease", row["tablename"])
            owner.execute(sql.SQL("ALTER TABLE {} ADD COLUMN added integer").format(table))
            owner.execute(sql.SQL("UPDATE {} SET added = 1").format(table))
            owner.execute(sql.SQL("ALTER TABLE {} ALTER added SET NOT NULL").format(table))
            with pytest.raises(BrokenError, match='"added"'):
                replay(kept, logins)
            owner.execute(sql.SQL("ALTER TABLE {} DROP COLUMN added").format(table))
            owner.execute(CLEAN)
