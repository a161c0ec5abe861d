"""The deployment's migrations: they run, they answer, and they never destroy."""

from __future__ import annotations

import importlib
import json
import secrets
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from postlease import database as databases
from postlease import migrations
from postlease.database import connect
from postlease.errors import ConfigurationError, UnavailableError
from tests import arrange
from tests.conftest import ROOT, SQL
from tests.migration import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EVERY_FILE = [
    file.name
    for folder in ("migrations", "functions")
    for file in migrations.read_files(SQL, folder)
]


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    function_name: str = "postlease-migrate"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:migrate"
    aws_request_id: str = "0d5c8a5e-6a6f-4b0e-8f2a-7c1b2d3e4f10"
    log_stream_name: str = "2026/03/12/[$LATEST]stream"

    def get_remaining_time_in_millis(self) -> int:
        """As much as the template gives."""
        return 840_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What CloudFormation got."""

    method: str
    path: str
    content_type: str | None
    body: dict[str, Any]


class CloudFormation(ThreadingHTTPServer):
    """The receiving end of a ResponseURL."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.answers: list[Answer] = []
        self.says: list[int] = []

    def event(self, kind: str) -> dict[str, Any]:
        """The sample event of a kind, to be answered here."""
        event: dict[str, Any] = json.loads(
            (ROOT / "events" / f"migrate-{kind}.json").read_text("utf-8")
        )
        return event | {"ResponseURL": f"http://127.0.0.1:{self.server_port}/answer?signed=yes"}


class _Receiver(BaseHTTPRequestHandler):
    server: CloudFormation

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.answers.append(Answer("PUT", self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.says.pop(0) if self.server.says else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    with CloudFormation() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Deploy(Protocol):
    """Invokes the function as a new environment of the deployment would."""

    def __call__(self, event: dict[str, Any], **variables: str) -> dict[str, Any]: ...


@pytest.fixture
def sql_package(tmp_path: Path) -> Path:
    """The layer that sam build makes of sql/."""
    subprocess.run(
        ["make", "-s", "-C", SQL, "build-SqlLayer", f"ARTIFACTS_DIR={tmp_path}"], check=True
    )
    return tmp_path / "python" / "postlease_sql"


@pytest.fixture
def url(empty_database: Callable[[], str]) -> str:
    """The owner's URL of the database that is deployed to."""
    return empty_database()


@pytest.fixture
def store_login(secret_store: Any) -> Callable[..., str]:
    """Stores a database secret and answers its ARN."""

    def store(conninfo: str, **changes: str) -> str:
        parts = conninfo_to_dict(conninfo)
        fields = {
            "host": str(parts["host"]),
            "port": str(parts["port"]),
            "dbname": str(parts["dbname"]),
            "username": str(parts["user"]),
            "password": str(parts["password"]),
        } | changes
        name = secrets.token_hex(8)
        created = secret_store.create_secret(Name=name, SecretString=json.dumps(fields))
        return str(created["ARN"])

    return store


@pytest.fixture
def application_login(url: str, application_password: str) -> str:
    return make_conninfo(url, user=migrations.APPLICATION_ROLE, password=application_password)


@pytest.fixture
def deploy(
    monkeypatch: pytest.MonkeyPatch,
    environment: Callable[..., None],
    sql_package: Path,
    store_login: Callable[..., str],
    url: str,
    application_login: str,
) -> Iterator[Deploy]:
    monkeypatch.syspath_prepend(sql_package.parent)
    usual = {
        "DATABASE_OWNER_SECRET_ARN": store_login(url),
        "DATABASE_SECRET_ARN": store_login(application_login),
    }
    opened = []

    def forget() -> None:
        for name in ("functions.migrate.app", "postlease_sql"):
            sys.modules.pop(name, None)
        databases.owner.cache_clear()

    def invoke(event: dict[str, Any], **variables: str) -> dict[str, Any]:
        forget()
        environment(**(usual | variables))
        app = importlib.import_module("functions.migrate.app")
        try:
            result: dict[str, Any] = app.handler(event, Invocation())
        finally:
            if databases.owner.cache_info().currsize:
                opened.append(databases.owner())
        return result

    yield invoke
    for database in opened:
        database.discard()
    forget()


def tables(url: str) -> dict[str, str]:
    with connect(url) as connection:
        row = connection.execute("SELECT to_regnamespace('postlease') AS oid").fetchone()
        return catalog.read(connection) if row and row["oid"] else {}


def test_creating_the_stack_migrates_and_answers_success(
    deploy: Deploy, cloudformation: CloudFormation, url: str
) -> None:
    event = cloudformation.event("create")
    assert deploy(event) == {"ran": EVERY_FILE}
    [answer] = cloudformation.answers
    assert (answer.method, answer.path) == ("PUT", "/answer?signed=yes")
    assert not answer.content_type
    assert answer.body == {
        "Status": "SUCCESS",
        "Reason": "see log stream 2026/03/12/[$LATEST]stream",
        "PhysicalResourceId": "postlease-migrations",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    assert "relation postlease.email_messages" in tables(url)


def test_afterwards_the_application_can_log_in_and_work(
    deploy: Deploy, cloudformation: CloudFormation, application_login: str
) -> None:
    deploy(cloudformation.event("create"))
    with connect(application_login) as application:
        arrange.enqueue(application)
        assert len(arrange.claim(application)) == 1


def test_updating_the_stack_runs_what_is_new_and_keeps_the_resource(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path
) -> None:
    deploy(cloudformation.event("create"))
    (sql_package / "migrations" / "0099_new.sql").write_text("SELECT 1")
    name = f"{len(list((sql_package / 'migrations').iterdir())):04}_new.sql"
    (sql_package / "migrations" / "0099_new.sql").rename(sql_package / "migrations" / name)
    ran = deploy(cloudformation.event("update"))["ran"]
    functions = [file for file in EVERY_FILE if file.startswith("functions/")]
    assert ran == [f"migrations/{name}", *functions]
    assert cloudformation.answers[-1].body["Status"] == "SUCCESS"
    assert {a.body["PhysicalResourceId"] for a in cloudformation.answers} == {
        "postlease-migrations"
    }


@pytest.mark.parametrize("says", [[503], [500, 503]])
def test_an_answer_that_is_not_taken_is_given_again(
    deploy: Deploy,
    cloudformation: CloudFormation,
    monkeypatch: pytest.MonkeyPatch,
    says: list[int],
) -> None:
    """Nobody else would: CloudFormation waits until it gives the deployment up."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    cloudformation.says = list(says)
    assert deploy(cloudformation.event("delete")) == {"ran": []}
    assert [answer.body["Status"] for answer in cloudformation.answers] == ["SUCCESS"] * (
        len(says) + 1
    )


@pytest.mark.parametrize(("says", "given"), [([403], 1), ([503, 503, 503], 3)])
def test_an_answer_that_cannot_be_given_is_an_error_of_the_function(
    deploy: Deploy,
    cloudformation: CloudFormation,
    monkeypatch: pytest.MonkeyPatch,
    says: list[int],
    given: int,
) -> None:
    """Its alarm rings, and the dead letters hold the event."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    cloudformation.says = list(says)
    with pytest.raises(OSError, match=f"HTTP Error {says[-1]}"):
        deploy(cloudformation.event("delete"))
    assert len(cloudformation.answers) == given


def test_a_long_reason_is_cut_to_what_cloudformation_takes(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path
) -> None:
    for number in range(300):
        (sql_package / "migrations" / f"misnamed-file-{number}.sql").write_text("SELECT 1")
    deploy(cloudformation.event("create"))
    reason = failure(cloudformation)
    assert reason.startswith("not named NNNN_what.sql: misnamed-file-0.sql")
    assert len(json.dumps(cloudformation.answers[0].body)) < 4096


def test_a_migration_that_takes_too_long_fails_the_deployment_by_its_name(
    deploy: Deploy,
    cloudformation: CloudFormation,
    sql_package: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The platform would end the process without an answer."""
    monkeypatch.setattr(Invocation, "get_remaining_time_in_millis", lambda _: 61_000)
    name = "0001_schema_and_roles.sql"
    (sql_package / "migrations" / name).write_text("DO $$ BEGIN PERFORM pg_sleep(600); END $$")
    deploy(cloudformation.event("create"))
    assert failure(cloudformation).startswith(f"migrations/{name} did not come to its end")


def test_updating_without_a_change_runs_nothing(
    deploy: Deploy, cloudformation: CloudFormation
) -> None:
    deploy(cloudformation.event("create"))
    assert deploy(cloudformation.event("update")) == {"ran": []}


def test_rolling_back_after_a_later_migration_succeeds_and_changes_nothing(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path, url: str
) -> None:
    """A stack whose rollback fails can be neither updated nor rolled back."""
    later = sql_package / "migrations" / "9999_later.sql"
    later.write_text("CREATE TABLE postlease.later (id integer)")
    name = f"{len(list(later.parent.iterdir())):04}_later.sql"
    later = later.rename(later.with_name(name))
    deploy(cloudformation.event("create"))
    before = tables(url)
    later.unlink()
    assert deploy(cloudformation.event("update")) == {"ran": []}
    assert cloudformation.answers[-1].body["Status"] == "SUCCESS"
    assert catalog.differences(before, tables(url)) == []


def test_creating_a_stack_on_a_newer_database_is_refused(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path
) -> None:
    later = sql_package / "migrations" / "9999_later.sql"
    later.write_text("CREATE TABLE postlease.later (id integer)")
    name = f"{len(list(later.parent.iterdir())):04}_later.sql"
    later = later.rename(later.with_name(name))
    deploy({})
    later.unlink()
    deploy(cloudformation.event("create"))
    assert f"{name} was applied here but is not" in failure(cloudformation)


def test_a_new_password_reaches_a_newer_database_by_hand(
    deploy: Deploy, store_login: Callable[..., str], sql_package: Path, application_login: str
) -> None:
    """Who rolled a release back changes the secret as before; else nobody could log in again."""
    name = f"{len(list((sql_package / 'migrations').iterdir())) + 1:04}_later.sql"
    later = sql_package / "migrations" / name
    later.write_text("CREATE TABLE postlease.later (id integer)")
    deploy({})
    later.unlink()
    changed = secrets.token_hex(24)
    arn = store_login(application_login, password=changed)
    assert deploy({}, DATABASE_SECRET_ARN=arn) == {"ran": []}
    with connect(make_conninfo(application_login, password=changed)) as application:
        assert application.execute("SELECT 1").fetchone()
    deploy({})  # the role is the whole server's


def test_deleting_the_stack_answers_success_and_changes_nothing(
    deploy: Deploy, cloudformation: CloudFormation, url: str
) -> None:
    deploy(cloudformation.event("create"))
    before = tables(url)
    assert deploy(cloudformation.event("delete")) == {"ran": []}
    assert cloudformation.answers[-1].body["Status"] == "SUCCESS"
    assert catalog.differences(before, tables(url)) == []


def test_a_stack_whose_database_is_gone_can_still_be_deleted(
    deploy: Deploy, cloudformation: CloudFormation
) -> None:
    event = cloudformation.event("delete")
    gone = "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone"
    assert deploy(event, DATABASE_OWNER_SECRET_ARN=gone, PUBLIC_URL="") == {"ran": []}
    assert cloudformation.answers[-1].body["Status"] == "SUCCESS"


def test_an_invocation_by_hand_just_migrates(deploy: Deploy, url: str) -> None:
    assert deploy({}) == {"ran": EVERY_FILE}
    assert deploy({}) == {"ran": []}


def test_a_secret_that_was_changed_a_moment_ago_is_taken_as_it_is_now(
    deploy: Deploy, store_login: Callable[..., str], secret_store: Any, application_login: str
) -> None:
    """By the process that read it before, as long as that lives."""
    arn = store_login(application_login, username="postgres")
    with pytest.raises(ConfigurationError):
        deploy({}, DATABASE_SECRET_ARN=arn)
    right = store_login(application_login)
    text = secret_store.get_secret_value(SecretId=right)["SecretString"]
    secret_store.put_secret_value(SecretId=arn, SecretString=text)
    same_process = sys.modules["functions.migrate.app"]
    assert same_process.handler({}, Invocation()) == {"ran": EVERY_FILE}
    databases.owner().discard()


def failure(cloudformation: CloudFormation) -> str:
    """The reason of the only answer, which must be a failure."""
    [answer] = cloudformation.answers
    assert answer.body["Status"] == "FAILED"
    return str(answer.body["Reason"])


def test_a_refused_migration_fails_the_deployment_by_its_name(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path
) -> None:
    bad = sql_package / "migrations" / "0001_schema_and_roles.sql"
    bad.write_text("CREATE TABLE postlease.canary (id integer); SELECT 'canary' / 0")
    deploy(cloudformation.event("create"))
    reason = failure(cloudformation)
    assert reason.startswith("migrations/0001_schema_and_roles.sql was refused")
    assert "canary" not in reason


def test_a_changed_migration_fails_the_update_and_changes_nothing(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path, url: str
) -> None:
    deploy({})
    before = tables(url)
    shutil.copy(
        sql_package / "migrations" / "0001_schema_and_roles.sql",
        sql_package / "migrations" / "0002_accounts.sql",
    )
    deploy(cloudformation.event("update"))
    assert "migrations/0002_accounts.sql changed" in failure(cloudformation)
    assert catalog.differences(before, tables(url)) == []


def test_a_database_that_is_away_fails_the_deployment_without_its_address(
    deploy: Deploy,
    cloudformation: CloudFormation,
    store_login: Callable[..., str],
    url: str,
) -> None:
    arn = store_login(url, port="9", password="canary")
    deploy(cloudformation.event("create"), DATABASE_OWNER_SECRET_ARN=arn)
    assert failure(cloudformation) == "the database does not answer"


def test_a_secret_that_is_missing_fails_the_deployment_without_its_name(
    deploy: Deploy, cloudformation: CloudFormation
) -> None:
    gone = "arn:aws:secretsmanager:us-east-1:123456789012:secret:canary"
    deploy(cloudformation.event("create"), DATABASE_OWNER_SECRET_ARN=gone)
    assert failure(cloudformation) == "the secret store did not answer"


def test_a_setting_that_is_missing_fails_the_deployment_by_its_name(
    deploy: Deploy, cloudformation: CloudFormation
) -> None:
    deploy(cloudformation.event("create"), PUBLIC_URL="")
    assert failure(cloudformation) == "PUBLIC_URL is not set"


@pytest.mark.parametrize("change", [{"username": "postgres"}, {"password": ""}])
def test_a_secret_of_another_role_is_never_written_into_the_database(
    deploy: Deploy,
    cloudformation: CloudFormation,
    store_login: Callable[..., str],
    application_login: str,
    change: dict[str, str],
    url: str,
) -> None:
    arn = store_login(application_login, **change)
    deploy(cloudformation.event("create"), DATABASE_SECRET_ARN=arn)
    assert "postlease_application" in failure(cloudformation)
    assert tables(url) == {}


def test_an_application_that_would_look_into_another_database_fails_the_deployment(
    deploy: Deploy,
    cloudformation: CloudFormation,
    store_login: Callable[..., str],
    application_login: str,
    url: str,
) -> None:
    arn = store_login(application_login, dbname="canary")
    deploy(cloudformation.event("create"), DATABASE_SECRET_ARN=arn)
    reason = failure(cloudformation)
    assert reason == "DatabaseName is another database than the owner's secret names as dbname"
    assert tables(url) == {}


def test_a_root_certificate_that_is_not_there_fails_the_deployment(
    deploy: Deploy,
    cloudformation: CloudFormation,
    store_login: Callable[..., str],
    application_login: str,
    url: str,
) -> None:
    """The functions have the same files, and could not log in."""
    arn = store_login(application_login, sslmode="verify-full", sslrootcert="/opt/canary.pem")
    deploy(cloudformation.event("create"), DATABASE_SECRET_ARN=arn)
    assert failure(cloudformation) == "DatabaseSslRootCert names no file that the functions have"
    assert tables(url) == {}


def test_a_root_certificate_that_nobody_would_look_at_may_be_missing(
    deploy: Deploy,
    cloudformation: CloudFormation,
    store_login: Callable[..., str],
    application_login: str,
) -> None:
    arn = store_login(application_login, sslmode="prefer", sslrootcert="/opt/canary.pem")
    deploy(cloudformation.event("create"), DATABASE_SECRET_ARN=arn)
    [answer] = cloudformation.answers
    assert answer.body["Status"] == "SUCCESS"


def test_an_unexpected_failure_is_answered_by_its_kind_alone(
    deploy: Deploy, cloudformation: CloudFormation, sql_package: Path
) -> None:
    """CloudFormation waits for an hour when nobody answers."""
    shutil.rmtree(sql_package / "migrations")
    deploy(cloudformation.event("create"))
    assert failure(cloudformation) == "FileNotFoundError"


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"PUBLIC_URL": ""}, ConfigurationError),
        ({"DATABASE_OWNER_SECRET_ARN": "arn:nowhere"}, UnavailableError),
    ],
)
def test_a_failure_by_hand_is_raised(
    deploy: Deploy, variables: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        deploy({}, **variables)
