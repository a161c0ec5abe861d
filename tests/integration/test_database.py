"""One kept connection, replaced when it died; and errors that say no more than they should."""

from __future__ import annotations

import json
import secrets
import socket
import time
import traceback
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from postlease import database as databases
from postlease import outbox
from postlease.database import Connection, Database, connect, translated_errors
from postlease.errors import ConfigurationError, DatabaseError, UnavailableError
from tests import arrange, producers
from tests.doubles.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CANARY = "canary@example.net"


def pid(database: Database) -> int:
    return database.connection().info.backend_pid


def last_statement(owner: Connection, of: int) -> str:
    row = owner.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [of]).fetchone()
    assert row
    return str(row["query"])


def end_session(owner: Connection, of: int) -> None:
    """End a session as a failover does, and return when it is gone."""
    assert owner.execute("SELECT pg_terminate_backend(%s, 5000) AS gone", [of]).fetchone() == {
        "gone": True
    }


@pytest.fixture
def every_use_is_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the environment had been frozen between any two uses."""
    monkeypatch.setattr(databases, "_IDLE_CHECK_SECONDS", 0.0)


@pytest.fixture
def proxied(owner: Connection, application_conninfo: str) -> Iterator[tuple[Database, Proxy]]:
    """A database whose connections go through a proxy."""
    parts = conninfo_to_dict(application_conninfo)
    with Proxy(str(parts["host"]), int(str(parts["port"]))) as proxy:
        conninfo = make_conninfo(application_conninfo, host="127.0.0.1", port=proxy.port)
        kept = Database(lambda *, refresh: conninfo)
        yield kept, proxy
        kept.discard()


def test_nothing_is_opened_before_it_is_needed() -> None:
    def conninfo(*, refresh: bool) -> str:
        raise AssertionError

    Database(conninfo).discard()


def test_one_connection_is_kept_over_all_uses(database: Database) -> None:
    assert pid(database) == pid(database)


def test_a_young_connection_is_used_without_asking_it(
    owner: Connection, database: Database
) -> None:
    database.connection().execute("SELECT 'mark'")
    assert last_statement(owner, pid(database)) == "SELECT 'mark'"


@pytest.mark.usefixtures("every_use_is_after_a_pause")
def test_a_connection_that_rested_is_asked_before_it_is_used(
    owner: Connection, database: Database
) -> None:
    database.connection().execute("SELECT 'mark'")
    asked = pid(database)
    assert last_statement(owner, asked) == "SELECT 1"
    assert database.connection().execute("SELECT 2 AS n").fetchone() == {"n": 2}
    assert pid(database) == asked


def test_a_connection_that_died_between_two_uses_is_replaced(
    owner: Connection, database: Database
) -> None:
    before = pid(database)
    end_session(owner, before)
    assert pid(database) != before
    assert database.connection().execute("SELECT 1 AS n").fetchone() == {"n": 1}


@pytest.mark.usefixtures("every_use_is_after_a_pause")
def test_a_connection_that_died_unheard_is_found_by_asking(
    proxied: tuple[Database, Proxy], owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBL-01: a half-open connection: our side believes in it, and nobody answers."""
    monkeypatch.setattr(databases, "_ECHO_SECONDS", 0.2)
    database, proxy = proxied
    before = pid(database)
    proxy.silence()
    started = time.monotonic()
    assert pid(database) != before
    assert time.monotonic() - started < 2
    assert proxy.connections == 2


@pytest.mark.usefixtures("every_use_is_after_a_pause")
def test_a_connection_that_ends_while_it_is_asked_is_replaced(
    proxied: tuple[Database, Proxy],
) -> None:
    database, proxy = proxied
    before = pid(database)
    proxy.hang_up_at_next_word()
    assert pid(database) != before


def test_a_connection_that_its_user_closed_is_replaced(database: Database) -> None:
    before = pid(database)
    database.connection().close()
    assert pid(database) != before


def test_a_discarded_connection_is_closed_and_the_next_use_opens_another(
    database: Database,
) -> None:
    before = database.connection()
    database.discard()
    assert before.closed
    assert database.connection() is not before


def test_sessions_speak_to_a_pooler_without_prepared_statements(database: Database) -> None:
    connection = database.connection()
    for _ in range(10):
        connection.execute("SELECT %s::integer", [1])
    rows = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
    assert rows == []
    assert connection.autocommit


# Transactions


def in_transaction(database: Database, *steps: Callable[[Connection], object]) -> None:
    with database.transaction() as connection:
        for step in steps:
            step(connection)


def test_a_transaction_commits_at_its_end(owner: Connection, database: Database) -> None:
    with database.transaction() as connection:
        arrange.enqueue(connection)
        assert arrange.statuses(owner) == {}
    assert arrange.statuses(owner) == {"pending": 1}


def test_any_exception_rolls_the_transaction_back_and_passes_through(
    owner: Connection, database: Database
) -> None:
    def stumble(_: Connection) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        in_transaction(database, arrange.enqueue, stumble)
    assert arrange.statuses(owner) == {}


def test_an_error_inside_a_transaction_does_not_poison_the_next(
    owner: Connection, database: Database
) -> None:
    """DBL-07."""
    before = pid(database)

    def ask_wrongly(connection: Connection) -> None:
        outbox.enqueue(connection, template="../x", to=[CANARY], parameters={})

    with pytest.raises(DatabaseError):
        in_transaction(database, arrange.enqueue, ask_wrongly)
    in_transaction(database, arrange.enqueue)
    assert arrange.statuses(owner) == {"pending": 1}
    assert pid(database) == before


def test_a_session_that_ends_inside_a_transaction_is_unavailable_and_the_next_one_works(
    owner: Connection, database: Database
) -> None:
    def lose_the_session(connection: Connection) -> None:
        end_session(owner, connection.info.backend_pid)
        connection.execute("SELECT 1")

    with pytest.raises(UnavailableError):
        in_transaction(database, arrange.enqueue, lose_the_session)
    in_transaction(database, arrange.enqueue)
    assert arrange.statuses(owner) == {"pending": 1}


# What errors mean, and what they do not say. The owner raises them: of the application's statements
# the server's log must hold no address, and an address is what these say.


def raised(sqlstate: str) -> LiteralString:
    return (
        "DO $$ BEGIN RAISE EXCEPTION 'canary@example.net'"  # type: ignore[return-value]
        f" USING ERRCODE = '{sqlstate}', DETAIL = 'canary@example.net'; END $$"
    )


@pytest.mark.parametrize(
    "sqlstate",
    [
        "08006",  # connection failure
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53300",  # too many connections
        "53100",  # disk full
        "55P03",  # lock not available
        "57014",  # statement timeout
        "57P01",  # shutdown
        "57P03",  # starting up
    ],
)
def test_what_may_succeed_later_is_unavailable(owner: Connection, sqlstate: str) -> None:
    with pytest.raises(UnavailableError) as caught, translated_errors():
        owner.execute(raised(sqlstate))
    assert sqlstate in str(caught.value)
    says_nothing(caught.value)


@pytest.mark.parametrize(
    "sqlstate", ["22003", "23505", "42501", "42P01", "55000", "P0001", "XX000"]
)
def test_what_will_fail_again_is_a_database_error_with_its_code(
    owner: Connection, sqlstate: str
) -> None:
    with pytest.raises(DatabaseError) as caught, translated_errors():
        owner.execute(raised(sqlstate))
    assert caught.value.sqlstate == sqlstate
    says_nothing(caught.value)


def says_nothing(error: BaseException) -> None:
    """Neither the error nor its traceback tells an address."""
    shown = "".join(traceback.format_exception(error))
    for text in (str(error), repr(error), str(error.args), shown):
        assert CANARY not in text.lower()
    assert error.__cause__ is None
    assert error.__suppress_context__


INSERT_USER: LiteralString = (
    "INSERT INTO postlease.users (email, email_canonical, locale) VALUES (%s, %s, %s)"
)


@pytest.mark.parametrize(
    ("row", "sqlstate", "constraint"),
    [
        ((CANARY, CANARY, "no such locale"), "23514", "users_locale_shape"),
        ((CANARY, CANARY, None), "23502", None),
        ((CANARY, "taken@example.net", "en"), "23505", "users_email_canonical_key"),
    ],
)
def test_a_broken_rule_is_named_and_its_row_is_not_shown(
    owner: Connection,
    application: Connection,
    row: tuple[str, ...],
    sqlstate: str,
    constraint: str | None,
) -> None:
    arrange.user(owner, "taken@example.net")
    with pytest.raises(DatabaseError) as caught, translated_errors():
        application.execute(INSERT_USER, row)
    assert (caught.value.sqlstate, caught.value.constraint) == (sqlstate, constraint)
    says_nothing(caught.value)


def test_a_nul_character_is_refused_before_the_server_sees_it(application: Connection) -> None:
    with pytest.raises(DatabaseError) as caught, translated_errors():
        application.execute("SELECT %s::text", [CANARY + "\0"])
    assert (caught.value.sqlstate, caught.value.constraint) == (None, None)
    says_nothing(caught.value)


def test_a_real_lock_timeout_is_unavailable(owner: Connection, application: Connection) -> None:
    user_id = arrange.user(owner)
    application.execute("SET lock_timeout = '20ms'")
    with owner.transaction():
        owner.execute("SELECT FROM postlease.users WHERE id = %s FOR UPDATE", [user_id])
        with pytest.raises(UnavailableError), translated_errors():
            application.execute("SELECT FROM postlease.users WHERE id = %s FOR UPDATE", [user_id])


def test_a_closed_connection_is_unavailable(application_conninfo: str) -> None:
    connection = connect(application_conninfo)
    connection.close()
    with pytest.raises(UnavailableError), translated_errors():
        connection.execute("SELECT 1")


def test_other_exceptions_pass_unchanged() -> None:
    with pytest.raises(KeyError), translated_errors():
        raise KeyError


# Opening


def test_a_silent_server_is_unavailable_by_the_connect_timeout(application_conninfo: str) -> None:
    """It takes the connection and never answers."""
    assert databases.CONNECT_TIMEOUT_SECONDS < 3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        conninfo = make_conninfo(
            application_conninfo, host="127.0.0.1", port=silent.getsockname()[1]
        )
        with pytest.raises(UnavailableError) as caught:
            Database(lambda *, refresh: conninfo).connection()
    says_nothing(caught.value)


def test_a_refused_connection_is_unavailable_at_once(application_conninfo: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    conninfo = make_conninfo(application_conninfo, host="127.0.0.1", port=port)
    with pytest.raises(UnavailableError) as caught:
        Database(lambda *, refresh: conninfo).connection()
    assert str(port) not in str(caught.value)


def test_a_server_without_room_is_unavailable_and_the_next_try_may_work(owner_url: str) -> None:
    with producers.login(owner_url) as login, connect(owner_url) as owner:
        role = sql.Identifier(str(conninfo_to_dict(login)["user"]))
        owner.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 0").format(role))
        kept = Database(lambda *, refresh: login)
        with pytest.raises(UnavailableError):
            kept.connection()
        owner.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 1").format(role))
        assert kept.connection().execute("SELECT 1 AS n").fetchone() == {"n": 1}
        kept.discard()


@pytest.fixture
def login_secret(secret_store: Any, application_conninfo: str) -> Callable[..., str]:
    """Stores a database secret, the application's but for changes; a change of None leaves out."""
    parts = conninfo_to_dict(application_conninfo)

    def store(arn: str | None = None, **changes: object) -> str:
        fields = {
            "host": parts["host"],
            "port": int(str(parts["port"])),
            "dbname": parts["dbname"],
            "username": parts["user"],
            "password": parts["password"],
        } | changes
        text = json.dumps({key: value for key, value in fields.items() if value is not None})
        if arn is not None:
            secret_store.put_secret_value(SecretId=arn, SecretString=text)
            return arn
        created = secret_store.create_secret(Name=secrets.token_hex(8), SecretString=text)
        return str(created["ARN"])

    return store


def test_a_rotated_password_is_fetched_anew_when_the_old_one_is_refused(
    environment: Callable[..., None], login_secret: Callable[..., str]
) -> None:
    arn = login_secret(password="before-the-rotation")
    environment(DATABASE_SECRET_ARN=arn)
    assert "before-the-rotation" in databases.secret_conninfo(arn, refresh=False)
    login_secret(arn)
    assert "before-the-rotation" in databases.secret_conninfo(arn, refresh=False)
    database = databases.application()
    assert database.connection().info.user == "postlease_application"


def test_a_login_that_stays_refused_is_unavailable_and_names_no_password(
    environment: Callable[..., None], login_secret: Callable[..., str]
) -> None:
    environment(DATABASE_SECRET_ARN=login_secret(password="canary@example.net"))
    with pytest.raises(UnavailableError) as caught:
        databases.application().connection()
    says_nothing(caught.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": CANARY}, "the database refuses the login"),
        ({"user": "canary"}, "the database refuses the login"),
        ({"dbname": "canary"}, "the database server has no such database, or no such role"),
        ({"host": "canary.invalid"}, "the database's host name is not known"),
        ({"sslmode": "require"}, "the database does not speak TLS"),
        ({"sslmode": "canary"}, "the database secret's sslmode is none"),
        ({"port": "9"}, "the database does not answer"),
    ],
)
def test_why_no_connection_comes_about_is_told_without_names(
    application_conninfo: str, change: dict[str, str], reason: str
) -> None:
    """Who deployed with a wrong secret reads this and nothing else."""
    conninfo = make_conninfo(application_conninfo, **change)
    with pytest.raises(UnavailableError) as caught:
        Database(lambda *, refresh: conninfo).connection()
    assert str(caught.value) == reason
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    says_nothing(caught.value)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('root certificate file "/a.pem" does not exist', "sslrootcert names is not there"),
        ("SSL error: certificate verify failed", "certificate is not trusted"),
        ('server certificate for "a" does not match host name "b"', "is not trusted"),
        ('FATAL:  no pg_hba.conf entry for host "a"', "refuses the login"),
        ("FATAL:  sorry, too many clients already", "has no connection left"),
        ("FATAL:  remaining connection slots are reserved for roles", "has no connection left"),
        ('FATAL:  too many connections for role "a"', "has no connection left"),
        ("connection timeout expired", "does not answer in time"),
        ("session is read-only", "takes no writes"),
        ("server closed the connection unexpectedly", "the database does not answer"),
    ],
)
def test_what_driver_or_server_say_is_told_in_words_of_ours(said: str, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason), databases.translated_errors():
        raise psycopg.OperationalError(f"connection failed: {said}")


def test_the_secret_is_not_read_again_when_the_server_is_away(application_conninfo: str) -> None:
    asked: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    def conninfo(*, refresh: bool) -> str:
        asked.append(refresh)
        return make_conninfo(application_conninfo, host="127.0.0.1", port=port)

    with pytest.raises(UnavailableError):
        Database(conninfo).connection()
    assert asked == [False]


@pytest.mark.parametrize("key", ["host", "dbname", "username", "password"])
def test_a_secret_that_lacks_a_part_is_a_fault_of_the_deployment(
    environment: Callable[..., None], login_secret: Callable[..., str], key: str
) -> None:
    arn = login_secret(**{key: None})
    with pytest.raises(ConfigurationError, match=f"lacks {key}$"):
        databases.secret_conninfo(arn, refresh=False)


@pytest.mark.parametrize("port", ["canary", "54 32", "-1", "\u0665"])
def test_a_port_that_is_no_number_is_a_fault_of_the_deployment(
    environment: Callable[..., None], login_secret: Callable[..., str], port: str
) -> None:
    arn = login_secret(port=port)
    with pytest.raises(ConfigurationError) as caught:
        databases.secret_conninfo(arn, refresh=False)
    assert port not in str(caught.value)


def test_what_a_secret_may_leave_out_has_its_usual_value(
    environment: Callable[..., None], login_secret: Callable[..., str]
) -> None:
    parts = conninfo_to_dict(databases.secret_conninfo(login_secret(port=None), refresh=False))
    assert str(parts["port"]) == "5432"
    assert "sslmode" not in parts


def test_what_a_secret_says_of_tls_is_passed_on(
    environment: Callable[..., None], login_secret: Callable[..., str]
) -> None:
    arn = login_secret(sslmode="verify-full", sslrootcert="/opt/rds.pem")
    parts = conninfo_to_dict(databases.secret_conninfo(arn, refresh=False))
    assert (parts["sslmode"], parts["sslrootcert"]) == ("verify-full", "/opt/rds.pem")


def test_each_use_keeps_a_connection_of_its_own(environment: Callable[..., None]) -> None:
    one, other = databases.application("requests"), databases.application("writer")
    try:
        assert pid(one) != pid(other)
        assert databases.application("requests") is one
    finally:
        one.discard()
        other.discard()


def test_the_owners_database_is_known_only_where_its_secret_is_named(
    environment: Callable[..., None], login_secret: Callable[..., str]
) -> None:
    databases.owner.cache_clear()
    with pytest.raises(ConfigurationError, match="DATABASE_OWNER_SECRET_ARN"):
        databases.owner()
    environment(DATABASE_OWNER_SECRET_ARN=login_secret())
    owner = databases.owner()
    assert owner.connection().execute("SELECT 1 AS n").fetchone() == {"n": 1}
    owner.discard()
    databases.owner.cache_clear()


def test_a_conninfo_that_libpq_does_not_understand_is_an_error_without_its_text() -> None:
    with pytest.raises(DatabaseError) as caught:
        Database(lambda *, refresh: f"nonsense={CANARY}").connection()
    assert isinstance(caught.value.__context__, psycopg.Error)
    says_nothing(caught.value)
