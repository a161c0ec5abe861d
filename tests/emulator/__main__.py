"""`make e2e`: this template on an emulator of AWS, a line for each step; 0 when all was seen.

`make emulator` (`--by-hand`) leaves the steps to whoever follows docs/deploy.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from local.binaries import PostgresError
from local.keeper import Keeper
from tests.emulator.account import Account
from tests.emulator.by_hand import ByHand
from tests.emulator.children import ChildError, members
from tests.emulator.project import Sam
from tests.emulator.stage import DOMAIN, StageError
from tests.emulator.story import Story
from tests.emulator.witness import Witness

if TYPE_CHECKING:
    from tests.emulator.cloud import Cloud

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Tell the story; 1 and the reason when a step did not see what it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.emulator", description=__doc__)
    parser.add_argument("--logs", type=Path, help="keep the logs of SAM and the emulator here")
    parser.add_argument("--by-hand", action="store_true", help="start the account, deploy nothing")
    arguments = parser.parse_args()
    logs = arguments.logs
    for number in _ENDING:
        signal.signal(number, _interrupt)
    began = time.monotonic()
    keeper = Keeper()
    try:
        with tempfile.TemporaryDirectory(prefix="postlease-e2e-") as name:
            folder = logs or Path(name) / "logs"
            folder.mkdir(parents=True, exist_ok=True)
            _run(keeper, Path(name), folder, by_hand=arguments.by_hand)
    except (ChildError, PostgresError, StageError) as error:
        print(f"e2e: FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("e2e: stopped" if arguments.by_hand else "e2e: interrupted", file=sys.stderr)
        return 0 if arguments.by_hand else 130  # a signal is how the first is meant to end
    finally:
        keeper.close()
    say(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


def _run(keeper: Keeper, folder: Path, logs: Path, *, by_hand: bool) -> None:
    keeper.remove_folder(folder)
    with Account(keeper, folder, logs) as account:
        if by_hand:
            watcher = ByHand(account, say=_print)
            _print(watcher.welcome())
            watcher.watch(threading.Event())
        _tell(keeper, folder, logs, account)
        pids = [account.emulator.pid, account.server.pid]
    left = [number for number in pids if members(number)]
    say(f"ended: PostgreSQL and the emulator, {len(left)} left of their groups; removing files")


def _tell(keeper: Keeper, folder: Path, logs: Path, account: Account) -> None:
    front, emulator, server = account.front, account.emulator, account.server
    version = account.server_version
    say(f"PostgreSQL {version} on port {front.port}, over TLS alone (pid {server.pid})")
    say(f"emulator of AWS on port {emulator.port} (pid {emulator.pid})")
    Story(
        emulator.cloud,
        Sam(keeper, folder, logs, emulator.cloud.environment),
        Witness(account.database_url),
        folder,
        given=account.parameters(_prepare(emulator.cloud, account.login)),
        say=say,
    ).tell()
    say(f"wire: {front.encrypted} logins over TLS, {front.refused} without")


def _prepare(cloud: Cloud, secret: dict[str, object]) -> str:
    """A sender in SES, and the owner's secret; its ARN."""
    cloud.client("sesv2").create_email_identity(EmailIdentity=DOMAIN)
    made = cloud.client("secretsmanager").create_secret(
        Name="postlease-owner", SecretString=json.dumps(secret)
    )
    return str(made["ARN"])


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _print(text: str) -> None:
    print(text, flush=True)


def say(line: str) -> None:
    """Print at once."""
    print(f"e2e: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
