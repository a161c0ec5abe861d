"""What the command tells while it runs: one line a step, with the time since its start."""

from __future__ import annotations

import time

_started = time.monotonic()


def tell(line: str) -> None:
    """Print line behind minutes and seconds."""
    minutes, seconds = divmod(int(time.monotonic() - _started), 60)
    print(f"bench {minutes:2d}:{seconds:02d}  {line}", flush=True)


def elapsed() -> float:
    """Seconds since the start."""
    return time.monotonic() - _started
