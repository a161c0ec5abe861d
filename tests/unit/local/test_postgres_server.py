"""The throw-away PostgreSQL: private, several at once, gone with its parent whatever ends it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from local import postgres
from local.binaries import PostgresError, find_binaries
from local.stack import ROOT

PARENT = """
import sys
from local.postgres import Server
with Server() as server:
    print(server.pid, server.url, server.folder, flush=True)
    sys.stdin.read()
"""


def wait_until_gone(pid: int) -> None:
    """Fail if pid is still at work after ten seconds."""
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it is still running"
        time.sleep(0.02)


def test_a_server_takes_a_password_and_nobody_without_it() -> None:
    with postgres.Server() as server:
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        without = server.url.replace(
            server.url.split("@", maxsplit=1)[0].split("//")[1], "postgres:x"
        )
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(without)


def test_settings_reach_the_server_and_two_run_at_once() -> None:
    with postgres.Server(max_connections="17") as one, postgres.Server(durable=True) as other:
        assert one.pid != other.pid
        with psycopg.connect(one.url) as connection:
            assert connection.execute("SHOW max_connections").fetchone() == ("17",)
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
        with psycopg.connect(other.url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_a_restart_cuts_connections_and_keeps_what_was_committed() -> None:
    with postgres.Server(durable=True) as server:
        before = psycopg.connect(server.url, autocommit=True)
        before.execute("CREATE TABLE kept ()")
        pid, url = server.pid, server.url
        told = server.log.read_text()
        server.restart()
        assert server.log.read_text().startswith(told)
        assert (server.pid != pid, server.url) == (True, url)
        with pytest.raises(psycopg.OperationalError):
            before.execute("SELECT 1")
        before.close()
        with psycopg.connect(url) as after:
            assert after.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_nothing_is_left_after_a_normal_end() -> None:
    with postgres.Server() as server:
        pid, folder = server.pid, server.folder
    wait_until_gone(pid)
    assert not folder.exists()


def test_nothing_is_left_after_kill_9_of_the_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout
    assert parent.stdin
    pid, url, folder = parent.stdout.readline().split()
    psycopg.connect(url).close()
    parent.kill()
    parent.wait()
    wait_until_gone(int(pid))
    deadline = time.monotonic() + 10
    while Path(folder).exists():
        assert time.monotonic() < deadline, "its folder is still there"
        time.sleep(0.02)
    parent.stdin.close()
    parent.stdout.close()


@pytest.mark.parametrize("template", [None, "postlease_test_template_of_copy"])
def test_databases_are_made_and_dropped_even_while_in_use(
    server_url: str, template: str | None
) -> None:
    name = f"postlease_test_copy_{os.getpid()}"
    if template is not None:
        template = f"{template}_{os.getpid()}"
        with psycopg.connect(postgres.create_database(server_url, template)) as connection:
            connection.execute("CREATE TABLE copied ()")
    url = postgres.create_database(server_url, name, template=template or "template0")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (name,)
        found = connection.execute("SELECT to_regclass('copied') IS NOT NULL").fetchone()
        assert found == (template is not None,)
        connection.commit()
        postgres.drop_database(server_url, name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    if template is not None:
        postgres.drop_database(server_url, template)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_database_url_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere/else")
    with postgres.server() as url:
        assert url == "postgresql://somewhere/else"


def test_postgres_bin_decides_over_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POSTGRES_BIN", str(tmp_path))
    with pytest.raises(PostgresError, match="POSTGRES_BIN"):
        find_binaries()
    (tmp_path / "postgres").touch()
    assert find_binaries() == tmp_path


def test_the_application_password_follows_from_the_server_not_the_database(server_url: str) -> None:
    one, other = (postgres.database_url(server_url, name) for name in ("one", "other"))
    assert postgres.application_password(one) == postgres.application_password(other)
    assert postgres.application_password("postgresql://u:p@h/d") != postgres.application_password(
        one
    )
