"""`python -m local`: the local stack's commands."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from local import postgres
from local.binaries import PostgresError
from local.containers import Containers, wanted_address
from local.demo import DemoError, run_demo
from local.follow import follow
from local.relay import RelayError
from local.stack import ROOT, Stack, StackError
from local.web import AddressInUseError

if TYPE_CHECKING:
    from local.template import Template

SETTINGS = (
    "ALLOWED_SENDERS",
    "TEMPLATES_DIRECTORY",
    "VERIFY_TOKEN_SECONDS",
    "VERIFY_CODES",
    "VERIFY_REDIRECT_URLS",
    "RESET_TOKEN_SECONDS",
    "RESET_URL",
    "SIGNUP_COOLDOWN_SECONDS",
    "MAILBOX_LIMIT_PER_HOUR",
    "MAILBOX_LIMIT_PER_DAY",
    "CLIENT_LIMIT_PER_MINUTE",
    "CLIENT_LIMIT_PER_HOUR",
    "IDEMPOTENCY_SECONDS",
    "RETENTION_SECONDS",
    "RETENTION_MODE",
    "REDACTION_SECONDS",
    "ARCHIVE_SECONDS",
)
"""What `dev` hands on to the functions from its own environment."""

SAM_ENVIRONMENT = ROOT / ".local" / "sam-env.json"
"""The variables for `sam local`, where samconfig.toml looks for them."""

_SERVER_VARIABLE = (
    "DATABASE_URL (a superuser's, of a server where the run makes a database and drops it)"
)

_ENDING = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the command that the arguments name and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    dev = commands.add_parser(
        "dev",
        help="run the whole stack until Ctrl-C",
        epilog="Variables: PORT (8000; 0 takes a free one), SCHEDULES=off, "
        f"{_SERVER_VARIABLE}, "
        "SAM_LOCAL=on (or the address where containers find this machine), "
        f"{', '.join(SETTINGS)}.",
    )
    dev.add_argument("--verbose", action="store_true", help="show the functions' logs here too")
    commands.add_parser(
        "demo",
        help="run the main road end to end, kill two sweeps, count what happened",
        epilog=f"Variables: {_SERVER_VARIABLE}.",
    )
    with_server = commands.add_parser(
        "postgres",
        help="run a command with DATABASE_URL set to a throw-away PostgreSQL",
        epilog="Variables: POSTGRES_BIN (folder of the binaries to use).",
    )
    with_server.add_argument("arguments", nargs=argparse.REMAINDER, metavar="command ...")
    arguments = parser.parse_args()
    # A shell starts what runs in its background with SIGINT ignored; an end is wanted all the same.
    for number in _ENDING:
        signal.signal(number, _interrupt)
    try:
        if arguments.command == "postgres":
            return _with_postgres(arguments.arguments)
        if arguments.command == "demo":
            return _demo()
        return _dev(verbose=arguments.verbose)
    except (AddressInUseError, DemoError, PostgresError, RelayError, StackError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0 if arguments.command == "dev" else 130  # a signal is how dev is meant to end


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _with_postgres(command: list[str]) -> int:
    if not command:
        raise StackError("name the command to run")
    with postgres.server() as url:
        environment = os.environ | {"DATABASE_URL": url}
        return subprocess.run(command, env=environment, check=False).returncode


def _demo() -> int:
    logs = _log_folder(f"demo-{os.getpid()}")
    status = 1
    try:
        status = run_demo(logs)
    finally:
        if logs is not None and status == 0:
            shutil.rmtree(logs)
        elif logs is not None and logs.exists():
            print(f"the functions' logs are in {logs}", file=sys.stderr)
    return status


def _port() -> int:
    text = os.environ.get("PORT") or "8000"
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise StackError("PORT must be a number from 0 to 65535")
    return int(text)


def _dev(*, verbose: bool) -> int:
    schedules = os.environ.get("SCHEDULES", "on").lower() not in {"off", "0", "no", "false"}
    port = _port()
    logs = _log_folder(f"dev-{port}") if port else None
    # Whoever ticks by hand waits for the answer, so a sweep then drains and ends.
    settings = {} if schedules else {"SWEEP_LINGER_SECONDS": "0"}
    settings |= _handed_on()
    address = _address_for_containers()
    with (
        Stack(port=port, schedules=schedules, settings=settings, logs=logs) as stack,
        contextlib.ExitStack() as beside,
    ):
        try:
            print(
                _WELCOME.strip().format(
                    url=stack.url,
                    server=stack.server,
                    database=stack.database_url,
                    logs=stack.log_folder,
                )
            )
            if names := not_taken(stack.template):
                print(f"not taken  {', '.join(names)}: here it is as in template.yaml")
            print(f"schedules  {'on' if schedules else 'off: tick by hand'}", flush=True)
            if address is not None:
                containers = beside.enter_context(Containers(stack, address, SAM_ENVIRONMENT))
                print(f"sam local  finds this stack on {address}, by {containers.file}", flush=True)
            if verbose:
                follow(stack.log_folder, sys.stderr)
            threading.Event().wait()
        except KeyboardInterrupt:
            for number in _ENDING:  # a second one does not disturb the tidying
                signal.signal(number, signal.SIG_IGN)
            print("\nstopping", flush=True)
    return 0


def _address_for_containers() -> str | None:
    try:
        return wanted_address(os.environ.get("SAM_LOCAL", ""))
    except ValueError:
        raise StackError("SAM_LOCAL must be on, off or an address of this machine") from None


def _handed_on() -> dict[str, str]:
    """The settings that stand in our environment; a function runs in a folder of its own."""
    found = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    if folder := found.get("TEMPLATES_DIRECTORY"):
        if not Path(folder).is_dir():
            raise StackError("TEMPLATES_DIRECTORY names no folder")
        found["TEMPLATES_DIRECTORY"] = str(Path(folder).absolute())
    return found


def not_taken(template: Template) -> list[str]:
    """Settings of the functions that stand in our environment and are not handed on."""
    known = {name for function in template.functions for name in function.environment}
    ours = {name for name in known if not name.startswith("AWS_")} - set(SETTINGS)
    return sorted(ours & os.environ.keys())


def _log_folder(name: str) -> Path | None:
    """Where logs stay after the end; None when the tree is not ours to write to.

    Nothing is made yet: a stack that cannot start leaves no folder.
    """
    folder = ROOT / ".local" / "logs" / name
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return folder if os.access(nearest, os.W_OK | os.X_OK) else None


_WELCOME = r"""
Postlease runs at {url} until Ctrl-C.
console    {url}/_local/
server     {server}
database   {database}
logs       {logs}

sign up    curl -i {url}/v1/signups \
             -H 'content-type: application/json' -d '{{"email":"ada@example.com"}}'
sweep      curl -X POST {url}/_local/api/invoke/sweep
read       curl {url}/_local/api/inbox
verify     curl {url}/v1/verifications \
             -H 'content-type: application/json' -d '{{"token":"..."}}'
"""


if __name__ == "__main__":
    sys.exit(main())
