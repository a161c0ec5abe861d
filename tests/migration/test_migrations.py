"""Forward only, once each, whole or not at all."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from postlease import migrations
from postlease.database import connect
from postlease.errors import ConfigurationError, DatabaseError, UnavailableError
from tests.conftest import SQL
from tests.migration import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from postlease.database import Connection

EVERY_FILE = [
    file.name
    for folder in ("migrations", "functions")
    for file in migrations.read_files(SQL, folder)
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of sql/ to change."""
    for folder in ("migrations", "functions"):
        shutil.copytree(SQL / folder, tmp_path / folder)
    return tmp_path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A source of one migration and one function."""
    (tmp_path / "migrations").mkdir()
    (tmp_path / "functions").mkdir()
    write(tmp_path, "migrations/0001_letters.sql", "CREATE TABLE postlease.letters (id integer);")
    write(
        tmp_path,
        "functions/answer.sql",
        "CREATE OR REPLACE FUNCTION postlease.answer() RETURNS integer LANGUAGE sql AS 'SELECT 1';",
    )
    return tmp_path


@pytest.fixture
def url(owner_url: str, empty_database: Callable[[], str]) -> str:
    return empty_database()


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(url) as opened:
        yield opened


def write(source: Path, name: str, text: str) -> None:
    source.joinpath(name).write_text(text, "utf-8")


def next_migration(source: Path) -> str:
    """The name of the migration that comes next."""
    return f"migrations/{len(list((source / 'migrations').iterdir())) + 1:04}_next.sql"


def ledger(connection: Connection) -> dict[str, bytes]:
    return {row["name"]: row["sha256"] for row in connection.execute(migrations.LEDGER)}


def exists(connection: Connection, name: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL AS found", [name]).fetchone()
    return bool(row and row["found"])


def test_every_file_runs_in_order_and_stands_in_the_ledger(
    connection: Connection, source: Path
) -> None:
    assert migrations.migrate(connection, source) == EVERY_FILE
    assert sorted(ledger(connection)) == sorted(EVERY_FILE)


def test_migrating_twice_changes_nothing(connection: Connection, source: Path) -> None:
    migrations.migrate(connection, source)
    before, noted = catalog.read(connection), ledger(connection)
    assert migrations.migrate(connection, source) == []
    assert catalog.differences(before, catalog.read(connection)) == []
    assert ledger(connection) == noted


def test_every_function_file_may_run_again_and_changes_nothing(
    connection: Connection, source: Path
) -> None:
    migrations.migrate(connection, source)
    before = catalog.read(connection)
    connection.execute("DELETE FROM postlease.schema_migrations WHERE name LIKE 'functions/%'")
    ran = migrations.migrate(connection, source)
    assert ran == [name for name in EVERY_FILE if name.startswith("functions/")]
    assert catalog.differences(before, catalog.read(connection)) == []


@pytest.mark.parametrize("name", [n for n in EVERY_FILE if n.startswith("migrations/")])
def test_a_migration_that_changed_after_it_was_applied_is_refused_by_name(
    connection: Connection, source: Path, name: str
) -> None:
    migrations.migrate(connection, source)
    before, noted = catalog.read(connection), ledger(connection)
    write(source, name, source.joinpath(name).read_text("utf-8") + "\n")
    write(source, "functions/answer.sql", "CREATE FUNCTION postlease.answer() ...")
    with pytest.raises(ConfigurationError, match=f"^{name} changed after it was applied"):
        migrations.migrate(connection, source)
    assert catalog.differences(before, catalog.read(connection)) == []
    assert ledger(connection) == noted


def test_a_missing_migration_is_refused_by_name(connection: Connection, source: Path) -> None:
    name = next_migration(source)
    write(source, name, "CREATE TABLE postlease.letters (id integer)")
    migrations.migrate(connection, source)
    source.joinpath(name).unlink()
    with pytest.raises(ConfigurationError, match=f"^{name} was applied here but is not among"):
        migrations.migrate(connection, source)


def test_a_newer_database_is_left_as_it_is_where_that_is_accepted(
    connection: Connection, source: Path
) -> None:
    name = next_migration(source)
    write(source, name, "CREATE TABLE postlease.letters (id integer)")
    migrations.migrate(connection, source)
    before, noted = catalog.read(connection), ledger(connection)
    source.joinpath(name).unlink()
    write(source, "functions/answer.sql", "SELECT 1 / 0")
    assert migrations.migrate(connection, source, accept_newer=True) == []
    assert catalog.differences(before, catalog.read(connection)) == []
    assert ledger(connection) == noted


def test_a_migration_that_is_missing_before_others_is_refused_though_newer_ones_are_accepted(
    connection: Connection, small: Path
) -> None:
    write(small, "migrations/0002_stamps.sql", "CREATE TABLE postlease.stamps (id integer)")
    migrations.migrate(connection, small)
    (small / "migrations/0002_stamps.sql").rename(small / "migrations/0002_seals.sql")
    with pytest.raises(ConfigurationError, match=r"0002_stamps\.sql was applied here"):
        migrations.migrate(connection, small, accept_newer=True)


def test_a_changed_migration_is_refused_though_newer_ones_are_accepted(
    connection: Connection, small: Path
) -> None:
    write(small, "migrations/0002_stamps.sql", "CREATE TABLE postlease.stamps (id integer)")
    migrations.migrate(connection, small)
    (small / "migrations/0002_stamps.sql").unlink()
    write(small, "migrations/0001_letters.sql", "SELECT 1")
    with pytest.raises(ConfigurationError, match=r"0001_letters\.sql changed after"):
        migrations.migrate(connection, small, accept_newer=True)


@pytest.mark.parametrize(
    "name", ["2_next.sql", "00002_next.sql", "next.sql", "0002-next.sql", "0002_Next.sql"]
)
def test_a_misnamed_migration_is_refused_before_anything_runs(
    connection: Connection, small: Path, name: str
) -> None:
    write(small, f"migrations/{name}", "SELECT 1")
    with pytest.raises(ConfigurationError, match=f"not named NNNN_what.sql: {name}"):
        migrations.migrate(connection, small)
    assert not exists(connection, "postlease.schema_migrations")


@pytest.mark.parametrize("name", ["0003_gap.sql", "0001_twice.sql", "0000_early.sql"])
def test_a_gap_or_a_doubled_number_is_refused_before_anything_runs(
    connection: Connection, small: Path, name: str
) -> None:
    write(small, f"migrations/{name}", "SELECT 1")
    with pytest.raises(ConfigurationError, match="without a gap"):
        migrations.migrate(connection, small)
    assert not exists(connection, "postlease.schema_migrations")


def test_files_of_another_kind_are_not_read(connection: Connection, small: Path) -> None:
    write(small, "migrations/README.md", "DROP SCHEMA postlease")
    write(small, "functions/answer.sql~", "DROP SCHEMA postlease")
    assert migrations.migrate(connection, small) == [
        "migrations/0001_letters.sql",
        "functions/answer.sql",
    ]


def test_a_failing_migration_is_rolled_back_wholly_and_named(
    connection: Connection, small: Path
) -> None:
    write(small, "migrations/0002_good.sql", "CREATE TABLE postlease.good (id integer)")
    write(
        small,
        "migrations/0003_bad.sql",
        "CREATE TABLE postlease.bad (id integer); SELECT 'canary' / 0;",
    )
    write(small, "migrations/0004_later.sql", "CREATE TABLE postlease.later (id integer)")
    with pytest.raises(ConfigurationError, match=r"^migrations/0003_bad.sql was refused") as caught:
        migrations.migrate(connection, small)
    assert "canary" not in str(caught.value)
    assert exists(connection, "postlease.good")
    assert not exists(connection, "postlease.bad")
    assert sorted(ledger(connection)) == ["migrations/0001_letters.sql", "migrations/0002_good.sql"]


def test_a_mended_migration_goes_on_where_the_failing_one_stopped(
    connection: Connection, small: Path
) -> None:
    write(small, "migrations/0002_bad.sql", "CREATE TABLE postlease.bad (id nothing)")
    with pytest.raises(ConfigurationError):
        migrations.migrate(connection, small)
    write(small, "migrations/0002_bad.sql", "CREATE TABLE postlease.bad (id integer)")
    assert migrations.migrate(connection, small) == [
        "migrations/0002_bad.sql",
        "functions/answer.sql",
    ]


CONCURRENTLY = (
    "-- no transaction\n"
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS letters_by_id ON postlease.letters (id);\n"
)


def test_a_file_marked_no_transaction_runs_alone(connection: Connection, small: Path) -> None:
    write(small, "migrations/0002_index.sql", CONCURRENTLY)
    migrations.migrate(connection, small)
    assert exists(connection, "postlease.letters_by_id")
    assert "migrations/0002_index.sql" in ledger(connection)


def test_the_same_statement_is_refused_without_the_mark(
    connection: Connection, small: Path
) -> None:
    write(small, "migrations/0002_index.sql", CONCURRENTLY.partition("\n")[2])
    with pytest.raises(ConfigurationError, match="sqlstate 25001"):
        migrations.migrate(connection, small)


def test_a_changed_function_is_applied_again_and_the_others_are_not(
    connection: Connection, small: Path
) -> None:
    write(small, "functions/other.sql", "SELECT 1")
    migrations.migrate(connection, small)
    write(
        small,
        "functions/answer.sql",
        "CREATE OR REPLACE FUNCTION postlease.answer() RETURNS integer LANGUAGE sql AS 'SELECT 2';",
    )
    assert migrations.migrate(connection, small) == ["functions/answer.sql"]
    assert connection.execute("SELECT postlease.answer() AS n").fetchone() == {"n": 2}
    assert migrations.migrate(connection, small) == []


def test_a_changed_signature_leaves_no_older_function_behind(
    connection: Connection, source: Path
) -> None:
    migrations.migrate(connection, source)
    names = sorted(path.stem for path in (source / "functions").iterdir())
    for name in names:
        file = source / "functions" / f"{name}.sql"
        file.write_text(
            f"CREATE FUNCTION postlease.{name}(other xid) RETURNS text LANGUAGE sql AS 'SELECT 1';"
            f"SELECT postlease.drop_other_signatures('postlease.{name}(xid)'::regprocedure);"
        )
    migrations.migrate(connection, source)
    rows = connection.execute(
        "SELECT p.oid::regprocedure::text AS name FROM pg_proc AS p"
        " WHERE p.pronamespace = 'postlease'::regnamespace AND p.proname = ANY (%s)",
        [names],
    ).fetchall()
    assert sorted(row["name"] for row in rows) == [f"postlease.{name}(xid)" for name in names]


@pytest.mark.parametrize("name", [n for n in EVERY_FILE if n.startswith("functions/")])
def test_every_function_file_replaces_its_function_and_ends_with_grants_and_a_sweep(
    name: str,
) -> None:
    text = SQL.joinpath(name).read_text("utf-8")
    function = name.removeprefix("functions/").removesuffix(".sql")
    created = text.index(f"CREATE OR REPLACE FUNCTION postlease.{function}(")
    revoked = text.index(f"REVOKE ALL ON FUNCTION postlease.{function}(")
    swept = text.index(f"SELECT postlease.drop_other_signatures(\n    'postlease.{function}(")
    assert created < revoked < swept


def test_replacing_the_functions_does_not_disturb_who_is_using_them(
    connection: Connection, url: str, source: Path
) -> None:
    """A deploy replaces them in place: the function keeps its identity."""
    migrations.migrate(connection, source)
    identities = "SELECT oid FROM pg_proc WHERE pronamespace = 'postlease'::regnamespace ORDER BY 1"
    before = connection.execute(identities).fetchall()
    functions = list((source / "functions").iterdir())
    connection.execute("DELETE FROM postlease.schema_migrations WHERE name LIKE 'functions/%'")
    assert len(migrations.migrate(connection, source)) == len(functions)
    assert connection.execute(identities).fetchall() == before


def test_a_migrator_runs_no_function_of_anybody_else(
    connection: Connection, url: str, source: Path
) -> None:
    """A better match in public would run with the owner's rights."""
    connection.execute(
        "CREATE FUNCTION public.format(text, name, text) RETURNS text LANGUAGE sql"
        " AS $$ SELECT 1 / 0 || $1 $$"
    )
    assert migrations.migrate(connection, source)


def test_a_migrator_that_is_not_let_in_gives_up_in_time(
    connection: Connection, url: str, source: Path
) -> None:
    with connect(url) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", [migrations._LOCK])
        with pytest.raises(UnavailableError):
            migrations.migrate(connection, source, patience=timedelta(seconds=0.3))


@pytest.mark.parametrize("mark", ["", "-- no transaction\n"])
def test_a_migration_that_takes_too_long_is_cancelled_and_named(
    connection: Connection, url: str, small: Path, mark: str
) -> None:
    """However many statements share the time: whoever waits for an answer gets one."""
    write(small, "migrations/0002_long.sql", mark + "DO $$ BEGIN PERFORM pg_sleep(600); END $$")
    with pytest.raises(UnavailableError, match=r"migrations/0002_long.sql did not come to its end"):
        migrations.migrate(connection, small, patience=timedelta(seconds=0.5))
    assert "migrations/0002_long.sql" not in ledger(connection)
    write(small, "migrations/0002_long.sql", "SELECT 1")
    with connect(url) as other:
        assert migrations.migrate(other, small)[0] == "migrations/0002_long.sql"


def test_no_file_is_begun_when_the_time_is_over(connection: Connection, small: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no time is left for migrations/0001"):
        migrations.migrate(connection, small, patience=timedelta())
    assert ledger(connection) == {}


def test_a_new_migration_runs_every_function_again(connection: Connection, source: Path) -> None:
    migrations.migrate(connection, source)
    name = next_migration(source)
    write(source, name, "ALTER TABLE postlease.email_messages ADD note text")
    functions = [n for n in EVERY_FILE if n.startswith("functions/")]
    assert migrations.migrate(connection, source) == [name, *functions]


def test_two_migrators_at_once_both_succeed_and_each_file_runs_once(url: str, source: Path) -> None:
    """Among them one that builds an index concurrently, which waits for every older snapshot."""
    write(
        source,
        next_migration(source),
        "-- no transaction\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_locale ON postlease.email_messages (locale)",
    )
    start = threading.Barrier(4)

    def run(_: int) -> list[str]:
        with connect(url) as own:
            start.wait()
            return migrations.migrate(own, source)

    with ThreadPoolExecutor(4) as threads:
        ran = list(threads.map(run, range(4)))
    assert sorted(map(len, ran)) == [0, 0, 0, len(EVERY_FILE) + 1]


def test_a_migrator_waits_for_the_one_before_it_without_a_snapshot(
    connection: Connection, url: str, small: Path
) -> None:
    """A waiting statement would keep the first one's concurrent index from ever ending."""
    with connect(url) as first:
        migrations.migrate(first, small)
        write(small, "migrations/0002_index.sql", CONCURRENTLY)
        with migrations._only_migrator(first, time.monotonic() + 600):
            second = threading.Thread(target=migrations.migrate, args=(connection, small))
            second.start()
            wait_until_it_asked(first, connection.info.backend_pid)
            first.execute(CONCURRENTLY)
            assert second.is_alive()
        second.join()
        assert "migrations/0002_index.sql" in ledger(first)


def wait_until_it_asked(observer: Connection, pid: int) -> None:
    """Return once the session of pid has asked for the migrators' lock."""
    for _ in range(500):
        row = observer.execute(
            "SELECT query LIKE '-- migrations.lock%%' AS asked, pg_sleep(0.01)"
            " FROM pg_stat_activity WHERE pid = %s",
            [pid],
        ).fetchone()
        if row and row["asked"]:
            return
    raise AssertionError("the second migrator never asked")


def test_a_migrator_that_fails_lets_the_next_one_in(
    connection: Connection, url: str, small: Path
) -> None:
    write(small, "migrations/0002_bad.sql", "SELECT 1 / 0")
    with pytest.raises(ConfigurationError):
        migrations.migrate(connection, small)
    write(small, "migrations/0002_bad.sql", "SELECT 1")
    with connect(url) as other:
        assert migrations.migrate(other, small)[0] == "migrations/0002_bad.sql"


def test_migrators_of_two_databases_set_the_application_password_at_once(
    owner_url: str, application_password: str
) -> None:
    """The role belongs to the server, so its row is everybody's."""
    start = threading.Barrier(4)

    def run(_: int) -> None:
        with connect(owner_url) as own:
            start.wait()
            for _ in range(10):
                migrations.set_application_password(own, application_password)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))


def test_only_a_verifier_of_the_application_password_reaches_the_server(
    connection: Connection, url: str, application_password: str
) -> None:
    migrations.set_application_password(connection, application_password)
    with connect(url) as observer:
        row = observer.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", [connection.info.backend_pid]
        ).fetchone()
    assert row
    assert "PASSWORD 'SCRAM-SHA-256$" in row["query"]
    assert application_password not in row["query"]


def test_a_role_that_may_not_set_the_password_is_told_so_at_once(
    application: Connection, application_password: str
) -> None:
    with pytest.raises(DatabaseError) as caught:
        migrations.set_application_password(application, application_password)
    assert caught.value.sqlstate == "42501"
    assert application_password not in str(caught.value)
