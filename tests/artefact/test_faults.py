"""Built functions are killed, frozen and cut off in the middle, and go on as the page says."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

from local.stack import Stack
from postlease.model import event_id
from tests import arrange
from tests.artefact.conftest import SETTINGS, answer, function_of, pass_time, sample, token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from local import postgres
    from local.built import Built
    from local.runtime import Result
    from postlease.database import Connection

SAMPLES = (
    "auth-signup",
    "messages-send",
    "sweep-schedule",
    "doorbell-sqs",
    "feedback-bounce-permanent",
    "reaper-schedule",
    "retention-schedule",
)
"""One event for each function that runs while the stack is up."""

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
LOCK = "LOCK TABLE postlease.email_messages, postlease.users, postlease.idempotency_keys,"
LOCK += " postlease.suppressions IN ACCESS EXCLUSIVE MODE"
WAITING = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND database = ("
WAITING += "SELECT oid FROM pg_database WHERE datname = current_database())"
HURRIED = {name.partition("-")[0]: 6 for name in SAMPLES} | {"retention": 16}
"""Seconds for an event; retention begins nothing that it might not end."""


@pytest.fixture(scope="module")
def hurried(built: Built, server: postgres.Server) -> Iterator[Stack]:
    """The built functions with hardly any time for an event."""
    with Stack(built=built, database_url=server.url, settings=SETTINGS, timeouts=HURRIED) as stack:
        yield stack


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Poll until condition() holds; fail after thirty seconds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def waiting(owner: Connection) -> int:
    """How many sessions of the database wait for a lock."""
    row = owner.execute(WAITING).fetchone()
    assert row
    return int(row["n"])


@contextmanager
def held_up(
    stack: Stack, *names: str
) -> Iterator[tuple[list[Future[Result]], Connection, Connection]]:
    """Samples under way, each inside a statement that waits for tables that somebody has locked.

    Answers their results to come, a connection to watch with, and the one that holds the locks.
    """
    url = stack.database_url
    with (
        psycopg.connect(url, autocommit=True, row_factory=dict_row) as watcher,
        psycopg.connect(url, row_factory=dict_row) as holder,
        ThreadPoolExecutor(len(names)) as threads,
    ):
        holder.execute(LOCK)
        running = [threads.submit(stack.run, function_of(name), sample(name)) for name in names]
        eventually(
            lambda: waiting(watcher) == len(names) or any(one.done() for one in running),
            "nothing waits",
        )
        for one in running:
            assert not one.done(), one.result()
        yield running, watcher, holder
        holder.rollback()


def is_done(result: Result) -> bool:
    """Whether an invocation ended as its trigger wishes."""
    if result.error is not None:
        return False
    value = result.value
    if "statusCode" in value:
        return bool(value["statusCode"] == 202)
    return not value.get("batchItemFailures")


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_killed_in_the_middle_left_nothing_half_done(
    stack: Stack, rows: Connection, name: str
) -> None:
    with held_up(stack, name) as ([running], watcher, holder):
        [victim] = stack.kill(function_of(name))
        result = running.result()
        assert result.error == "Unhandled"
        assert result.value["errorType"] == "Runtime.ExitError"
        assert "signal: killed" in result.value["errorMessage"]
        holder.rollback()
        # The server hears of it when the dead session's statement has ended.
        eventually(lambda: waiting(watcher) == 0, "a dead session still waits")
    assert is_done(stack.run(function_of(name), sample(name)))
    assert victim not in stack.functions[function_of(name)].pids
    made = rows.execute("SELECT count(*) AS n FROM postlease.email_messages").fetchone()
    assert made == {"n": 1 if name in {"auth-signup", "messages-send"} else 0}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_frozen_in_the_middle_goes_on_from_there(
    stack: Stack, rows: Connection, name: str
) -> None:
    with held_up(stack, name) as ([running], watcher, holder):
        [worker] = stack.functions[function_of(name)].busy_pids
        os.kill(worker, signal.SIGSTOP)
        holder.rollback()
        eventually(lambda: waiting(watcher) == 0, "the statement did not go on")
        assert not running.done()
        os.kill(worker, signal.SIGCONT)
        assert is_done(running.result())
    assert worker in stack.functions[function_of(name)].pids


def test_what_is_over_its_time_is_killed_and_the_next_event_starts_anew(hurried: Stack) -> None:
    """Every function at once, each stopped inside a statement until its time is over."""
    functions = [function_of(name) for name in SAMPLES]
    events = dict(zip(functions, map(sample, SAMPLES), strict=True))
    for function in functions:
        assert is_done(hurried.run(function, events[function])), function
    with held_up(hurried, *SAMPLES) as (running, _, holder):
        workers = {function: hurried.functions[function].busy_pids for function in functions}
        for worker in chain(*workers.values()):
            os.kill(worker, signal.SIGSTOP)
        holder.rollback()
        for function, result in zip(functions, running, strict=True):
            error = result.result().value
            assert error["errorType"] == "Sandbox.Timedout", function
            assert f"timed out after {HURRIED[function]}.00 seconds" in error["errorMessage"]
    for function in functions:
        assert not set(workers[function]) & set(hurried.functions[function].pids)
        assert is_done(hurried.run(function, events[function])), function


def test_a_message_of_a_sweep_that_ran_out_of_time_is_sent_by_another(
    stack: Stack, rows: Connection, templates: Path
) -> None:
    """A template that never ends takes the sweep's whole time; mended, its mail is sent once."""
    folder = templates / "endless" / "en"
    folder.mkdir(parents=True)
    (templates / "endless" / "sample.json").write_text("{}")
    for part in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / part).write_text(ENDLESS)
    for worker in stack.functions["sweep"].pids:
        os.kill(worker, signal.SIGKILL)  # they have read their templates already
    eventually(lambda: not stack.functions["sweep"].pids, "a sweep is left")
    [message] = arrange.enqueue(rows, template="endless", parameters={})
    result = stack.run("sweep", sample("sweep-schedule"))
    assert result.value["errorType"] == "Sandbox.Timedout"
    assert arrange.row(rows, message)["status"] == "sending"
    for part in ("subject.txt.j2", "body.txt.j2", "body.html.j2"):
        (folder / part).write_text("at last")
    pass_time(rows, 7)
    assert stack.invoke("reaper", sample("reaper-schedule"))["worker_lost_returned"] == 1
    assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
    assert [mail["subject"] for mail in stack.inbox()] == ["at last"]


@pytest.mark.parametrize("function", ["sweep", "doorbell"])
def test_a_killed_sender_s_message_is_sent_by_another(
    stack: Stack, rows: Connection, function: str
) -> None:
    [message] = arrange.enqueue(rows)
    with sending(stack, function, message) as running:
        assert stack.kill(function)
        assert running.result().value["errorType"] == "Runtime.ExitError"
    pass_time(rows, 15)
    assert stack.invoke("reaper", sample("reaper-schedule"))["unknown_returned"] == 1
    assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
    assert len(stack.inbox()) == 1


@pytest.mark.parametrize("function", ["sweep", "doorbell"])
def test_a_sender_frozen_beyond_its_lease_changes_nothing_when_it_thaws(
    stack: Stack, rows: Connection, function: str
) -> None:
    """Meanwhile the reaper gave its message to another sweep, which sent it."""
    [message] = arrange.enqueue(rows)
    with sending(stack, function, message) as running:
        [worker] = stack.functions[function].busy_pids
        os.kill(worker, signal.SIGSTOP)
        pass_time(rows, 15)
        assert stack.invoke("reaper", sample("reaper-schedule"))["unknown_returned"] == 1
        assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
        settled = arrange.row(rows, message)
        os.kill(worker, signal.SIGCONT)
        assert running.result().error is None
    assert worker in stack.functions[function].pids
    assert arrange.row(rows, message) == settled
    assert settled["status"] == "sent"
    assert [entry["outcome"] for entry in settled["attempts"]] == ["unknown", "accepted"]
    assert len(stack.inbox()) == 1


@contextmanager
def sending(stack: Stack, function: str, message: Any) -> Iterator[Future[Result]]:
    """A sender whose call the provider holds and will never accept."""
    event = sample("sweep-schedule")
    if function == "doorbell":
        event = sample("doorbell-sqs")
        event["Records"][0]["body"] = event_id(message)
    stack.set_faults("stall", times=1)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(stack.run, function, event)
        assert stack.provider.wait_for(lambda counts: counts.held == 1, seconds=30)
        yield running


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
@pytest.mark.parametrize("frozen", [False, True], ids=["idle", "frozen"])
def test_a_restarted_database_is_found_again_by_every_function(
    stack: Stack, server: postgres.Server, *, crash: bool, frozen: bool
) -> None:
    """The same processes, whose kept connections are all dead, do not stumble once."""
    names = [*SAMPLES, "migrate-update"]
    events: dict[str, Any] = {name: sample(name) for name in SAMPLES}
    events["migrate-update"] = {}
    for name in names:
        assert is_done(stack.run(function_of(name), events[name])), name
    workers = {name: set(stack.functions[name].pids) for name in stack.functions}
    everybody = [pid for pids in workers.values() for pid in pids]
    for pid in everybody if frozen else ():
        os.kill(pid, signal.SIGSTOP)
    server.restart(crash=crash)
    for pid in everybody if frozen else ():
        os.kill(pid, signal.SIGCONT)
    for name in names:
        assert is_done(stack.run(function_of(name), events[name])), name
    assert {name: set(stack.functions[name].pids) for name in stack.functions} == workers


def secret(stack: Stack, logical_id: str) -> tuple[Any, str, dict[str, str]]:
    """The secret store, a secret's ARN, and what it holds."""
    store = stack.aws.client("secretsmanager")
    arn = store.describe_secret(SecretId=logical_id)["ARN"]
    return store, arn, json.loads(store.get_secret_value(SecretId=arn)["SecretString"])


def end_sessions(owner: Connection) -> None:
    """Cut every connection of the application's role."""
    owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'postlease_application' AND datname = current_database()"
    )


def test_a_rotated_database_password_is_followed_at_the_next_connection(
    stack: Stack, rows: Connection, server: postgres.Server
) -> None:
    """`docs/deploy.md`: change the secret, invoke migrate with {}; in the middle of a sweep."""
    for name in SAMPLES:
        assert is_done(stack.run(function_of(name), sample(name)))
    workers = {name: set(stack.functions[name].pids) for name in stack.functions}
    store, arn, login = secret(stack, "DatabaseSecret")
    rows.execute("TRUNCATE postlease.email_messages, postlease.users CASCADE")
    arrange.enqueue(rows, 20)
    stack.set_faults("slow", seconds=0.5)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(stack.run, "sweep", sample("sweep-schedule"))
        assert stack.provider.wait_for(lambda counts: counts.held > 0, seconds=30)
        changed = login | {"password": "rotated-" + login["password"]}
        store.put_secret_value(SecretId=arn, SecretString=json.dumps(changed))
        try:
            assert stack.invoke("migrate", {}) == {"ran": []}
            with pytest.raises(psycopg.OperationalError, match="password"):
                old_login(stack, login)
            end_sessions(rows)
            running.result()
            stack.set_faults("accept")
            while {"pending", "sending"} & arrange.statuses(rows).keys():
                pass_time(rows, 15)
                stack.invoke("reaper", sample("reaper-schedule"))
                stack.invoke("sweep", sample("sweep-schedule"))
            assert arrange.statuses(rows) == {"sent": 20}
            for name in SAMPLES:
                assert is_done(stack.run(function_of(name), sample(name))), name
            now = {name: set(stack.functions[name].pids) for name in stack.functions}
            assert now == workers
        finally:
            # The role is the server's, and other stacks on it log in too.
            store.put_secret_value(SecretId=arn, SecretString=json.dumps(login))
            stack.invoke("migrate", {})
            end_sessions(rows)


def old_login(stack: Stack, login: dict[str, str]) -> None:
    """Log in with a password."""
    postgres_url = {"host": login["host"], "port": login["port"], "dbname": login["dbname"]}
    psycopg.connect(**postgres_url, user=login["username"], password=login["password"]).close()


def test_links_of_the_old_and_the_new_token_key_are_mailed_by_a_sweep_that_knew_one(
    stack: Stack, rows: Connection
) -> None:
    """`docs/deploy.md`: a second key beside the first, then it is current."""
    assert answer(stack, "auth-signup")[0] == 202
    assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
    old = token(stack)
    sweeps = stack.functions["sweep"].pids
    store, arn, keys = secret(stack, "TokenKeysSecret")
    both = keys | {"k2": "second-key-" * 5, "current": "k2"}
    store.put_secret_value(SecretId=arn, SecretString=json.dumps(both))
    # The ten minutes that the page has one wait: no process remembers the key that was current.
    for worker in stack.functions["auth"].pids:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: not stack.functions["auth"].pids, "an auth function is left")
    assert answer(stack, "auth-signup-base64")[0] == 202
    assert stack.invoke("sweep", sample("sweep-schedule"))["sent"] == 1
    assert stack.functions["sweep"].pids == sweeps
    new = token(stack)
    used = rows.execute("SELECT DISTINCT key_id FROM postlease.verification_tokens").fetchall()
    assert {row["key_id"] for row in used} == {"k1", "k2"}
    for link in (old, new):
        assert answer(stack, "auth-verification", body={"token": link})[0] == 200
