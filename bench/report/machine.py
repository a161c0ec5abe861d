"""What it was measured on, without a name of the machine or of a place on it."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path


def describe() -> dict[str, str | int | float]:
    """Processor, memory, system, Python, and the load at this moment."""
    return {
        "processor": _found(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo"),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(int(_found(r"^MemTotal:\s+(\d+)", "/proc/meminfo") or 0) / 1024**2, 1),
        "system": _found(r'^PRETTY_NAME="(.+)"$', "/etc/os-release"),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "measured_at": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _found(pattern: str, path: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""
