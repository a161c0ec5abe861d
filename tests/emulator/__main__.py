"""`make e2e`: this template on an emulator of AWS, a line for each step; 0 when all was seen."""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

from local import postgres
from local.binaries import PostgresError
from local.keeper import Keeper
from tests.doubles.certificates import Certificate
from tests.emulator.children import ChildError, members
from tests.emulator.emulator import Emulator
from tests.emulator.project import Sam
from tests.emulator.stage import DOMAIN, StageError
from tests.emulator.story import Story
from tests.emulator.tls import TlsFront
from tests.emulator.witness import Witness

if TYPE_CHECKING:
    from tests.emulator.cloud import Cloud

DATABASE = "postlease"
OWNER = "postlease_owner"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Tell the story; 1 and the reason when a step did not see what it should."""
    parser = argparse.ArgumentParser(prog="python -m tests.emulator", description=__doc__)
    parser.add_argument("--logs", type=Path, help="keep the logs of SAM and the emulator here")
    logs = parser.parse_args().logs
    for number in _ENDING:
        signal.signal(number, _interrupt)
    began = time.monotonic()
    keeper = Keeper()
    try:
        with tempfile.TemporaryDirectory(prefix="postlease-e2e-") as name:
            folder = logs or Path(name) / "logs"
            folder.mkdir(parents=True, exist_ok=True)
            _run(keeper, Path(name), folder)
    except (ChildError, PostgresError, StageError) as error:
        print(f"e2e: FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("e2e: interrupted", file=sys.stderr)
        return 130
    finally:
        keeper.close()
    say(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


def _run(keeper: Keeper, folder: Path, logs: Path) -> None:
    keeper.remove_folder(folder)
    certificate = Certificate(folder)
    with (
        postgres.Server() as server,
        TlsFront(urlsplit(server.url).port or 0, certificate.server_context()) as front,
        Emulator(keeper, folder, logs) as emulator,
    ):
        server_pid = server.pid
        password, version = _make_database(server.url)
        say(f"PostgreSQL {version} on port {front.port}, over TLS alone (pid {server.pid})")
        say(f"emulator of AWS on port {emulator.port} (pid {emulator.pid})")
        place = {"host": "127.0.0.1", "port": front.port, "dbname": DATABASE}
        trust = {"sslmode": "verify-full", "sslrootcert": str(certificate.path)}
        login = {"username": OWNER, "password": password}
        owner = _prepare_account(emulator.cloud, {**place, **login, **trust})
        Story(
            emulator.cloud,
            Sam(keeper, folder, logs, emulator.cloud.environment),
            Witness(_url(server.url, password)),
            folder,
            given={
                "DatabaseHost": str(place["host"]),
                "DatabasePort": str(place["port"]),
                "DatabaseName": DATABASE,
                "DatabaseSslMode": trust["sslmode"],
                "DatabaseSslRootCert": trust["sslrootcert"],
                "DatabaseOwnerSecretArn": owner,
            },
            say=say,
        ).tell()
        say(f"wire: {front.encrypted} logins over TLS, {front.refused} without")
    left = [number for number in (emulator.pid, server_pid) if members(number)]
    say(f"ended: PostgreSQL and the emulator, {len(left)} left of their groups; removing files")


def _make_database(url: str) -> tuple[str, str]:
    """The migrating role, as docs/deploy.md asks for it, and its database; password and version."""
    password = secrets.token_urlsafe(24)
    with psycopg.connect(url, autocommit=True) as connection:
        role = sql.Identifier(OWNER)
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD {}").format(
                role, sql.Literal(password)
            )
        )
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), role)
        )
        return password, str(connection.info.parameter_status("server_version"))


def _prepare_account(cloud: Cloud, secret: dict[str, object]) -> str:
    """What a user has before the first deploy: a sender in SES and the owner's secret; its ARN."""
    cloud.client("sesv2").create_email_identity(EmailIdentity=DOMAIN)
    made = cloud.client("secretsmanager").create_secret(
        Name="postlease-owner", SecretString=json.dumps(secret)
    )
    return str(made["ARN"])


def _url(server: str, password: str) -> str:
    """The owner's way to the database, past the TLS front."""
    place = urlsplit(server)
    return f"postgresql://{OWNER}:{quote(password)}@127.0.0.1:{place.port}/{DATABASE}"


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def say(line: str) -> None:
    """Print at once."""
    print(f"e2e: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
