"""Shows log files as they grow, each line with its file's name in front."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, BinaryIO, TextIO

if TYPE_CHECKING:
    from pathlib import Path

_PAUSE_SECONDS = 0.2


def follow(folder: Path, output: TextIO) -> None:
    """Copy what is appended to folder's `*.log` from now on, until this process ends."""
    files = {path.stem: path.open("rb") for path in sorted(folder.glob("*.log"))}
    for log in files.values():
        log.seek(0, 2)
    threading.Thread(target=_copy, args=(files, output), daemon=True).start()


def _copy(files: dict[str, BinaryIO], output: TextIO) -> None:
    while True:
        for name, log in files.items():
            output.writelines(f"{name}: {line.decode(errors='replace').rstrip()}\n" for line in log)
        output.flush()
        time.sleep(_PAUSE_SECONDS)
