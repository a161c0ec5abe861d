"""A stack ends without a trace, and `python -m local dev` runs the real functions."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from local import postgres
from local.__main__ import SETTINGS
from local.stack import ROOT, Stack, StackError
from tests.e2e.conftest import ask
from tests.template.configuration import known_variables

if TYPE_CHECKING:
    from collections.abc import Iterator


SWEEP = "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], method='POST'))"


def database_exists(server_url: str, name: str) -> bool:
    """Whether the server has that database."""
    with psycopg.connect(server_url) as connection:
        asked = "SELECT count(*) FROM pg_database WHERE datname = %s"
        return connection.execute(asked, (name,)).fetchone() == (1,)


def wait_for(condition: Any, what: str) -> None:
    """Poll until condition() holds; fail after thirty seconds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def all_gone(pids: list[int]) -> bool:
    """Whether none of the processes is at work any more."""
    alive = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


def test_a_stack_ends_without_a_trace(sample_template: Path, server_url: str) -> None:
    with Stack(template=sample_template, database_url=server_url) as stack:
        stack.invoke("web")
        pids = [stack.aws.pid, *(pid for f in stack.functions.values() for pid in f.pids)]
        name = urlsplit(stack.database_url).path.lstrip("/")
        folder, url = stack.log_folder, stack.url
        assert len(pids) == 3
        assert database_exists(server_url, name)
    assert all_gone(pids)
    assert not folder.exists()
    assert not database_exists(server_url, name)
    with pytest.raises(OSError, match="refused"):
        ask(url)


def test_schedules_fire_on_their_own_and_the_console_switches_them(
    sample_template: Path, server_url: str
) -> None:
    with Stack(template=sample_template, database_url=server_url, schedules=True) as stack:
        assert stack.state()["schedules"] == [
            {"name": "mailer-Tick", "function": "mailer", "expression": "rate(1 minute)"}
        ]
        wait_for(stack.inbox, "the schedule did not fire")
        assert stack.inbox()[0]["subject"] == "tick"
        wait_for(lambda: stack.functions["mailer"].last_result, "the run did not end")
        assert stack.functions["mailer"].last_result["source"] == "aws.scheduler"
        for to, on in (("off", []), ("on", ["mailer"])):
            form = f"name=mailer-Tick&to={to}".encode()
            page = ask(f"{stack.url}/_local/actions/schedule", "POST", form, Origin=stack.url)
            told = page.body.decode()
            assert f"The schedule mailer-Tick is {to}." in told
            assert ("The schedule of the mailer is off." in told) == (to == "off")
            assert [one["function"] for one in stack.state()["schedules"]] == on


def test_a_burst_beyond_the_number_of_workers_is_served_whole(
    sample_template: Path, server_url: str
) -> None:
    with Stack(template=sample_template, database_url=server_url) as stack:
        web = stack.functions["web"]
        with ThreadPoolExecutor(40) as clients:
            answers = list(clients.map(lambda n: ask(f"{stack.url}/{n}").json, range(80)))
        assert [answer["rawPath"] for answer in answers] == [f"/{number}" for number in range(80)]
        assert 1 <= web.cold_starts <= web.definition.concurrency


def test_settings_and_timeouts_of_the_caller_come_before_the_templates(
    sample_template: Path, server_url: str
) -> None:
    settings = {"STAGE": "changed"}
    with Stack(
        template=sample_template, database_url=server_url, settings=settings, timeouts={"web": 1.5}
    ) as stack:
        definition = stack.functions["web"].definition
        assert (definition.environment["STAGE"], definition.timeout) == ("changed", 1.5)
        assert definition.concurrency >= 4
        assert stack.functions["mailer"].definition.concurrency >= 2


def test_a_migration_that_fails_is_one_clear_error_and_leaves_nothing(
    sample_template: Path, server_url: str
) -> None:
    wrong = {"OWNER": "arn:not-there"}
    stack = Stack(template=sample_template, database_url=server_url, settings=wrong)
    with pytest.raises(StackError, match="migrate failed"):
        stack.__enter__()
    assert all_gone([stack.aws.pid, *stack.functions["migrate"].pids])
    assert not database_exists(server_url, urlsplit(stack.database_url).path.lstrip("/"))


DEV = (sys.executable, "-m", "local", "dev")
# Its recipe as it stands, with this run's Python; the environment is set up already.
MAKE_DEV = ("make", "-o", "setup", f"BIN={Path(sys.executable).parent}", "dev")
# What a shell does for a command that ends with `&`.
IN_THE_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")


class Dev:
    """`python -m local dev` under way, with what it printed."""

    def __init__(
        self, server_url: str, *, command: tuple[str, ...] = DEV, **variables: str
    ) -> None:
        environment = os.environ | {"DATABASE_URL": server_url, "PORT": "0", "SCHEDULES": "off"}
        environment["PYTHONPATH"] = str(ROOT)
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
            environment.pop(name, None)  # a make that is started by a make says where it works
        self.program = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = ""
        self.is_told_its_server = False
        self.database = ""

    def wait_until_ready(self) -> None:
        """Read its output up to the line about schedules."""
        assert self.program.stdout
        for line in self.program.stdout:
            if match := re.match(r"Postlease runs at (\S+)", line):
                self.url = match[1]
            if line.startswith("server"):
                assert line.endswith(", by DATABASE_URL\n")
                self.is_told_its_server = True
            if match := re.match(r"database +(\S+)", line):
                self.database = urlsplit(match[1]).path.lstrip("/")
            if line.startswith("schedules"):
                assert self.is_told_its_server
                return
        pytest.fail(f"it ended: {self.program.stderr.read() if self.program.stderr else ''}")

    def pids(self) -> list[int]:
        """Its own process id and those of everything it started."""
        children = psutil.Process(self.program.pid).children(recursive=True)
        return [self.program.pid, *(child.pid for child in children)]

    def close(self) -> None:
        """End it, whatever it does."""
        self.program.kill()
        self.program.communicate()


@pytest.fixture
def dev(server_url: str) -> Iterator[Dev]:
    """A development stack on the run's server."""
    started = Dev(server_url)
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.close()


def test_dev_takes_a_signup_all_the_way_to_verified(dev: Dev, server_url: str) -> None:
    signup = ask(f"{dev.url}/v1/signups", "POST", {"email": "ada@example.com"})
    assert signup.status == 202
    event = f"{dev.url}/v1/events/{signup.json['verification']['event_id']}"
    assert ask(event).json["status"] == "queued"
    invoke = f"{dev.url}/_local/api/invoke/sweep"
    assert ask(invoke, "POST").json == {"claimed": 1, "accepted": 1, "sent": 1}
    assert ask(event).json["status"] == "sent"
    (mail,) = ask(f"{dev.url}/_local/api/inbox").json
    token = re.search(r"#token=([\w-]+)", mail["text"])
    assert token
    answers = [ask(f"{dev.url}/v1/verifications", "POST", {"token": token[1]}) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json == answers[1].json
    assert answers[0].json["status"] == "verified"

    assert ask(f"{dev.url}/v1/signups", "POST", {"email": "grace@example.com"}).status == 202
    ask(f"{dev.url}/_local/api/faults", "PUT", {"ses": {"mode": "stall"}})
    state = f"{dev.url}/_local/api/state"
    # It ends with a sweep in the middle of a call as well.
    with subprocess.Popen(
        [sys.executable, "-c", SWEEP, invoke], stderr=subprocess.DEVNULL
    ) as sweep:
        wait_for(
            lambda: any(function["busy_pids"] for function in ask(state).json["functions"]),
            "the sweep did not start",
        )
        pids = dev.pids()
        dev.program.send_signal(signal.SIGTERM)
        dev.program.communicate(timeout=60)
        assert dev.program.returncode == 0
        sweep.wait(20)
    assert all_gone(pids)
    assert not database_exists(server_url, dev.database)


def test_nothing_is_left_after_kill_9_of_dev(dev: Dev, server_url: str) -> None:
    assert ask(f"{dev.url}/healthz").status == 200
    pids = dev.pids()
    assert len(pids) >= 4
    dev.program.kill()
    dev.program.wait()
    wait_for(lambda: all_gone(pids), "a process outlived the stack")
    wait_for(lambda: not database_exists(server_url, dev.database), "its database is still there")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("before", [(), IN_THE_BACKGROUND], ids=["foreground", "background"])
def test_either_signal_ends_dev_cleanly_however_it_was_started(
    server_url: str, before: tuple[str, ...], number: signal.Signals
) -> None:
    dev = Dev(server_url, command=(*before, *DEV))
    try:
        dev.wait_until_ready()
        pids = dev.pids()
        dev.program.send_signal(number)
        _, errors = dev.program.communicate(timeout=60)
    finally:
        dev.close()
    assert (dev.program.returncode, errors) == (0, "")
    wait_for(lambda: all_gone(pids), "a process outlived the stack")
    wait_for(lambda: not database_exists(server_url, dev.database), "its database is still there")


def test_a_signal_ends_dev_before_it_is_ready(server_url: str) -> None:
    dev = Dev(server_url)
    try:
        wait_for(lambda: len(dev.pids()) > 2, "it started nothing")
        pids = dev.pids()
        dev.program.send_signal(signal.SIGINT)
        _, errors = dev.program.communicate(timeout=60)
    finally:
        dev.close()
    assert (dev.program.returncode, errors) == (0, "")
    wait_for(lambda: all_gone(pids), "a process outlived the stack")


@pytest.mark.parametrize("before", [(), IN_THE_BACKGROUND], ids=["foreground", "background"])
def test_make_has_nothing_to_add_when_dev_is_interrupted(
    server_url: str, before: tuple[str, ...]
) -> None:
    """The terminal sends Ctrl-C to make and to all that it runs."""
    dev = Dev(server_url, command=(*before, *MAKE_DEV))
    try:
        dev.wait_until_ready()
        pids = dev.pids()
        os.killpg(dev.program.pid, signal.SIGINT)
        printed, errors = dev.program.communicate(timeout=60)
    finally:
        dev.close()
    assert (printed, errors) == ("\nstopping\n", "")
    wait_for(lambda: all_gone(pids), "a process outlived the stack")


def test_a_busy_port_is_one_clear_line(server_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        dev = Dev(server_url, PORT=str(port))
        _, errors = dev.program.communicate(timeout=60)
    assert dev.program.returncode == 1
    assert errors == f"error: port {port} is taken: choose another, or PORT=0\n"
    assert not (ROOT / ".local" / "logs" / f"dev-{port}").exists()


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"PORT": "many"}, "error: PORT must be a number"),
        ({"VERIFY_CODES": "perhaps"}, "error: VERIFY_CODES must be one of on, off"),
        ({"ALLOWED_SENDERS": "shop"}, "error: ALLOWED_SENDERS "),
        ({"TEMPLATES_DIRECTORY": "nowhere"}, "error: TEMPLATES_DIRECTORY names no folder"),
        (
            {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"},
            "error: cannot create a database on the server of DATABASE_URL: ",
        ),
    ],
)
def test_a_wrong_variable_is_one_clear_line(
    server_url: str, variables: dict[str, str], text: str
) -> None:
    dev = Dev(server_url, **variables)
    _, errors = dev.program.communicate(timeout=60)
    assert dev.program.returncode == 1
    (line,) = errors.splitlines()
    assert line.startswith(text)


def test_dev_hands_settings_on_to_the_functions(server_url: str, tmp_path: Path) -> None:
    """A template of one's own, named by a relative path, from a sender that it names itself."""
    assert set(SETTINGS) <= known_variables()
    folder = tmp_path / "verify_email" / "en"
    folder.mkdir(parents=True)
    (folder / "subject.txt.j2").write_text("Welcome to our shop")
    (tmp_path / "verify_email" / "template.json").write_text(
        '{"from": "Shop <shop@example.com>", "parameters": {"link": {"url": true}}}'
    )
    dev = Dev(
        server_url,
        TEMPLATES_DIRECTORY=os.path.relpath(tmp_path, ROOT),
        ALLOWED_SENDERS="shop@example.com",
        VERIFY_CODES="on",
    )
    try:
        dev.wait_until_ready()
        assert ask(f"{dev.url}/v1/signups", "POST", {"email": "ada@example.com"}).status == 202
        ask(f"{dev.url}/_local/api/invoke/sweep", method="POST")
        [mail] = ask(f"{dev.url}/_local/api/inbox").json
    finally:
        dev.close()
    assert mail["subject"] == "Welcome to our shop"
    assert "shop@example.com" in mail["from"]
    assert re.search(r"\b[0-9]{6}\b", mail["text"])


def test_a_command_runs_with_a_server_of_its_own() -> None:
    command = "import os, psycopg; psycopg.connect(os.environ['DATABASE_URL']); raise SystemExit(7)"
    environment = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
    ended = subprocess.run(
        [sys.executable, "-m", "local", "postgres", sys.executable, "-W", "ignore", "-c", command],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.returncode == 7
    assert postgres.find_binaries()
