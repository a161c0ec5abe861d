"""Tables, moments and JSON; nothing that the API tells can move a terminal's cursor."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ops.failing import OpsError


def plain(value: object) -> str:
    """value as one line of text: what is no visible character is written as its escape."""
    return "".join(
        sign if not unicodedata.category(sign).startswith(("C", "Zl", "Zp")) else ascii(sign)[1:-1]
        for sign in str(value)
    )


def moment(text: str | None) -> str:
    """A moment of the API in UTC, to the millisecond."""
    if text is None:
        return "-"
    found = datetime.fromisoformat(text).astimezone(UTC)
    return f"{found:%Y-%m-%d %H:%M:%S}.{found.microsecond // 1000:03d}Z"


def span(seconds: float) -> str:
    """A duration as people say it: `0 s`, `42 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of columns as wide as their widest cell."""
    cells = [list(heads), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def lines(found: Iterable[str]) -> None:
    """Each on a line of its own, without what would move a cursor."""
    for line in found:
        click.echo(plain(line))


def document(value: Any) -> None:
    """value as JSON, for programs; ASCII alone."""
    click.echo(json.dumps(value, indent=2))


def complain(error: OpsError, *, as_json: bool) -> None:
    """What went wrong, on standard error."""
    if as_json:
        click.echo(json.dumps({"error": error.document()}), err=True)
    else:
        click.echo(f"ops: {plain(error)}", err=True)
