"""Finds Chromium and its driver on this machine; installs Debian's where there are none.

Run as `python -m local.chromium`, it says in one line what it found, or what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium", "chromium-driver"]
MISSING = (
    "no Chromium with a chromedriver: install both (Debian: apt install chromium chromium-driver), "
    "or set CHROMIUM and CHROMEDRIVER to their paths"
)


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser, and the driver of the same version."""

    browser: Path
    driver: Path


def find() -> Chromium | None:
    """What CHROMIUM and CHROMEDRIVER name, or what is on PATH; None where either is missing."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    if browser is None or driver is None:
        return None
    found = Chromium(Path(browser), Path(driver))
    return found if found.browser.exists() and found.driver.exists() else None


def install() -> None:
    """Install Debian's packages. CalledProcessError where that cannot be done."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], INSTALL):
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def main() -> int:
    """Say what there is; 1 and one sentence where there is nothing, and nothing can be done."""
    if find() is None and shutil.which("apt-get") and os.geteuid() == 0:
        try:
            install()
        except subprocess.CalledProcessError as error:
            print(f"error: {' '.join(error.cmd)} failed", file=sys.stderr)
    found = find()
    if found is None:
        print(f"error: {MISSING}", file=sys.stderr)
        return 1
    print(f"browser: {found.browser}, driver: {found.driver}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
