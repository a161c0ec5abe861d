"""Finds the Python that SAM builds with: `sam build` wants a `python3.13` on PATH.

Run as `python -m local.python313`, it prints the folder to put first on PATH. A version manager's
shim that exists but does not run (no version chosen) is passed over.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "python3.13"
MISSING = (
    f"{NAME} was not found: `sam build` needs it on PATH. Install it (a package of your system, "
    "pyenv, uv or python.org), or set PYTHON313 to its path."
)


def _version_managers() -> Iterator[Path]:
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    places = (
        pyenv / "versions/3.13*",
        home / ".asdf/installs/python/3.13*",
        uv / "cpython-3.13*",
    )
    for place in places:
        for found in sorted(glob.glob(f"{place}/bin/{NAME}"), reverse=True):  # noqa: PTH207
            yield Path(found)


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("PYTHON313"):
        yield Path(named)
    if sys.version_info[:2] == (3, 13):
        yield Path(sys.base_prefix) / "bin" / NAME
    if on_path := shutil.which(NAME):
        yield Path(on_path)
    for folder in ("/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"):
        yield Path(folder) / NAME
    yield from _version_managers()


def _works(python: Path) -> bool:
    """Whether it starts, is 3.13, and has the pip that builds the dependency layer."""
    check = "import pip, sys; sys.exit(sys.version_info[:2] != (3, 13))"
    try:
        ended = subprocess.run([python, "-c", check], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def find() -> Path | None:
    """The first python3.13 that works, or None."""
    return next((found for found in _candidates() if found.is_file() and _works(found)), None)


def main() -> int:
    """Print the folder of a working python3.13; 1 and a sentence on stderr when there is none."""
    if (found := find()) is None:
        print(MISSING, file=sys.stderr)
        return 1
    print(found.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
