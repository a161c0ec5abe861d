"""Arrays that are written by hand come back as what they were written from."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from postlease.outbox import arrays

if TYPE_CHECKING:
    from postlease.database import Connection

IDS = [UUID(int=0), UUID("0198f2a4-0000-7000-8000-00000000000a")]
TEXTS = ["", "NULL", "null", None, "a,b", '{"}', "\\", '\\"', " x ", "é\n", "{}", "%s"]
OCTETS = [b"", b"\x00\xff", b'"\\']
INTERVALS = [timedelta(seconds=90), timedelta(microseconds=1), timedelta(days=2), timedelta(0)]


@pytest.mark.parametrize(
    ("kind", "written", "values"),
    [
        ("uuid", arrays.uuids(IDS), IDS),
        ("integer", arrays.integers([0, -1, 2]), [0, -1, 2]),
        ("boolean", arrays.booleans([True, False]), [True, False]),
        ("text", arrays.texts(TEXTS), TEXTS),
        ("bytea", arrays.octets(OCTETS), OCTETS),
        ("interval", arrays.intervals(INTERVALS), INTERVALS),
        ("text", arrays.texts([]), []),
    ],
)
def test_an_array_arrives_as_it_was(
    owner: Connection, kind: str, written: str, values: list[Any]
) -> None:
    row = owner.execute(f"SELECT %s::{kind}[] AS value", [written]).fetchone()
    assert row
    assert row["value"] == values


def test_no_interval_is_none_at_all(owner: Connection) -> None:
    row = owner.execute("SELECT %s::interval[] AS value", [arrays.intervals([None])]).fetchone()
    assert row
    assert row["value"] == [timedelta(0)]
