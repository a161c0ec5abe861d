"""The project as its user has it: this clone's build, and copies of it with a further release."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from typing import TYPE_CHECKING

from local import python313
from local.stack import ROOT
from tests.emulator.children import LOOPBACK_ALONE, Child, ChildError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from local.keeper import Keeper

PARTS = ("template.yaml", "samconfig.toml", "functions", "layers", "sql")
"""All that `sam build` reads."""

HEADER = "x-release"
SAM = ROOT / ".venv-sam/bin/sam"
_MINUTES = 60.0
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}

# The new code serves only what the new migration made: run too early, it fails.
_CHANGED = '''

_served_{number} = handler


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: F811
    """What was served before, with the release that the newest migration names."""
    with database.application().transaction() as connection:
        row = connection.execute("SELECT name FROM postlease.releases_{number}").fetchone()
    answer = _served_{number}(event, context)
    answer.setdefault("headers", {{}})["{header}"] = "{release} " + row["name"]
    return answer
'''

_MIGRATION = """\
CREATE TABLE postlease.releases_{number} (name text NOT NULL);
GRANT SELECT ON postlease.releases_{number} TO postlease_application;
INSERT INTO postlease.releases_{number} VALUES ('{release}');
-- Long enough that the old code is seen to serve meanwhile.
SELECT pg_sleep(2);
"""

_REFUSED = """\
CREATE TABLE postlease.refused_{number} (name text NOT NULL);
SELECT 1 / 0;
"""
_MENDED = _REFUSED.replace("SELECT 1 / 0", "SELECT 1")


def architecture() -> str:
    """The template's word for this machine's processor."""
    machine = platform.machine().lower()
    if machine not in _ARCHITECTURES:
        raise ChildError(f"the functions are not built for {machine}")
    return _ARCHITECTURES[machine]


class Sam:
    """The SAM CLI, told of the emulated AWS; what it says goes to files in logs."""

    def __init__(
        self, keeper: Keeper, folder: Path, logs: Path, environment: Mapping[str, str]
    ) -> None:
        self._keeper = keeper
        self._logs = logs
        # Settings of its own, by which it has just looked for a newer version of itself.
        settings = folder / "sam"
        settings.mkdir()
        (settings / "metadata.json").write_text(json.dumps({"lastVersionCheck": time.time()}))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SAM_"))}
        self._environment = {
            **kept,
            **environment,
            "PATH": f"{python_folder()}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "SAM_CLI_TELEMETRY": "0",
            "__SAM_CLI_APP_DIR": str(settings),
        }

    def run(self, project: Path, *arguments: str) -> tuple[int, str]:
        """Exit status and everything said. Only `build`, for pip, looks beyond loopback."""
        log = self._logs / f"sam-{arguments[0]}.log"
        log.unlink(missing_ok=True)
        confined = {} if arguments[0] == "build" else LOOPBACK_ALONE
        child = Child(
            self._keeper,
            [str(SAM), *arguments],
            environment=self._environment | confined,
            folder=project,
            log=log,
        )
        status = child.wait(10 * _MINUTES)
        return status, log.read_text(errors="replace")


def python_folder() -> Path:
    """Where the Python is that `sam build` needs; ChildError if there is none."""
    python = python313.find()
    if python is None:
        raise ChildError(python313.MISSING)
    return python.parent


def copy_project(base: Path, folder: Path) -> Path:
    """Copy to folder what `sam build` reads, and answer folder."""
    folder.mkdir()
    for part in PARTS:
        if (base / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(base / part, folder / part, ignore=ignored)
        else:
            shutil.copy(base / part, folder / part)
    return folder


class Release:
    """A copy of the project, or of another such copy, with one migration more and new code.

    name is the release's; it is written into the migration and into the function, so an answer
    tells which code and which migration it came from. With refused, a second migration follows,
    which the database refuses.
    """

    def __init__(self, base: Path, folder: Path, name: str, *, refused: bool = False) -> None:
        self.folder = copy_project(base, folder)
        self.name = name
        migrations = folder / "sql/migrations"
        number = 1 + max(int(path.name[:4]) for path in migrations.glob("*.sql"))
        self._words = {"number": f"{number:04}", "release": name, "header": HEADER}
        self.table = f"releases_{number:04}"
        self.migration = f"migrations/{number:04}_releases.sql"
        self.refused = f"migrations/{number + 1:04}_refused.sql"
        self._write(self.migration, _MIGRATION)
        if refused:
            self._write(self.refused, _REFUSED)
        served = folder / "functions/auth/app.py"
        served.write_text(served.read_text() + _CHANGED.format(**self._words))

    def mend(self) -> None:
        """Write the refused migration as it should have been."""
        self._write(self.refused, _MENDED)

    def _write(self, name: str, text: str) -> None:
        (self.folder / "sql" / name).write_text(text.format(**self._words))
