"""Numbers, durations and moments as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from ops.printing import moment as exact
from ops.printing import span

__all__ = ["clock", "cut", "exact", "many", "minutes", "moment", "seconds", "size", "span"]


def many(number: int, one: str, more: str | None = None) -> str:
    """The number with its noun: `1 message`, `2 messages`."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def moment(at: datetime | str | None) -> str:
    """A moment in UTC, to the second; `-` for none."""
    if at is None:
        return "-"
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{found.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def clock(at: datetime | None) -> str:
    """The time of day of a moment, in UTC."""
    return "-" if at is None else f"{at.astimezone(UTC):%H:%M:%S}Z"


def minutes(value: float) -> str:
    """A duration of value seconds, rounded down: what is read aloud must not change every second.

    `less than a minute`, `3 min`, `5 h`, `2 d`.
    """
    for size_of, unit in ((86_400, "d"), (3_600, "h")):
        if value >= 2 * size_of:
            return f"{value // size_of:.0f} {unit}"
    return f"{value // 60:.0f} min" if value >= 60 else "less than a minute"


def seconds(value: float | None) -> str:
    """A latency: `0.42 s`, `12 s`; `-` for none."""
    if value is None:
        return "-"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def size(number: int) -> str:
    """Bytes: `512 bytes`, `2.1 kB`, `3.4 MB`."""
    if number < 1000:
        return many(number, "byte")
    return f"{number / 1000:.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"


def cut(text: str, most: int) -> str:
    """text, or its first most characters and an ellipsis: a page has an end."""
    return text if len(text) <= most else f"{text[:most]}…"
