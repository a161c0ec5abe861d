"""Finds an installed PostgreSQL, older than the embedded one; installs Debian's if there is none.

Run as `python -m local.debian_postgres`, it prints the folder of the binaries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PLACES = Path("/usr/lib/postgresql")
INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"]


def find_binaries() -> Path | None:
    """The newest installed server's folder, or None."""
    found = [folder for folder in PLACES.glob("*/bin") if (folder / "initdb").exists()]
    return max(found, key=lambda folder: int(folder.parent.name), default=None)


def install() -> None:
    """Install Debian's server without the cluster that its package would start."""
    settings = Path("/etc/postgresql-common/createcluster.conf")
    settings.parent.mkdir(parents=True, exist_ok=True)
    if not settings.exists():
        settings.write_text("create_main_cluster = false\n")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], INSTALL):
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def main() -> int:
    """Print the folder, or one sentence that says what is missing."""
    if find_binaries() is None and shutil.which("apt-get") and os.geteuid() == 0:
        install()
    folder = find_binaries()
    if folder is None:
        print(f"no PostgreSQL server under {PLACES}: install your system's", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
