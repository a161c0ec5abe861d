"""Arrays as PostgreSQL reads them.

The driver makes them too, but looks at every element several times: for a batch that costs a worker
more than all else of the statement. What a statement gets from here it casts, as it does anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from uuid import UUID


def uuids(values: Iterable[UUID]) -> str:
    """An array of uuid."""
    return _array([value.hex for value in values])


def integers(values: Iterable[int]) -> str:
    """An array of integer."""
    return _array(map(str, values))


def booleans(values: Iterable[bool]) -> str:
    """An array of boolean."""
    return _array(["t" if value else "f" for value in values])


def texts(values: Iterable[str | None]) -> str:
    """An array of text, None being NULL."""
    return _array(["NULL" if value is None else _quoted(value) for value in values])


def octets(values: Iterable[bytes]) -> str:
    """An array of bytea."""
    return _array([rf'"\\x{value.hex()}"' for value in values])


def intervals(values: Iterable[timedelta | None]) -> str:
    """An array of interval, None being none at all."""
    return _array([f"{value.total_seconds():f}s" if value else "0" for value in values])


def _array(elements: Iterable[str]) -> str:
    return "{" + ",".join(elements) + "}"


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'
