"""Finds Node.js and npm, installs Debian's where there are none, and fetches the tests' packages.

Run as `python -m local.node`, it says in one line what it found, or what is missing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tests" / "node"
INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "nodejs", "npm"]
PACKAGES = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
MISSING = "no node with an npm on PATH: install both (Debian: apt install nodejs npm)"


def find() -> str | None:
    """Where node is; None where it or npm is missing."""
    return shutil.which("node") if shutil.which("npm") else None


def install() -> None:
    """Install Debian's packages. CalledProcessError where that cannot be done."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], INSTALL):
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def fetch_packages() -> None:
    """Install what tests/node/package-lock.json names, unless that is what lies there already.

    CalledProcessError where npm cannot.
    """
    stamp = FOLDER / "node_modules" / ".stamp"
    wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run(PACKAGES, check=True, cwd=FOLDER, stdout=sys.stderr)
        stamp.write_text(wanted)


def main() -> int:
    """Say what there is; 1 and one sentence where there is nothing, and nothing can be done."""
    try:
        if find() is None and shutil.which("apt-get") and os.geteuid() == 0:
            install()
        if (node := find()) is None:
            print(f"error: {MISSING}", file=sys.stderr)
            return 1
        fetch_packages()
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)} failed", file=sys.stderr)
        return 1
    print(f"node: {node}, packages: {FOLDER / 'node_modules'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
