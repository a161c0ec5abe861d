"""How often the console reads its figures, and how long it waits for them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from psycopg.conninfo import conninfo_to_dict

from local.console import figures


@pytest.mark.parametrize(("takes", "reads"), [(0.02, 20), (2.0, 3)])
def test_pages_that_look_every_three_seconds_keep_the_database_busy_for_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes: float, reads: int
) -> None:
    clock, found = [0.0], []

    def read(_: str) -> figures.Figures:
        clock[0] += takes
        found.append(clock[0])
        return figures.Figures(figures.Queue(datetime.now(UTC)))

    monkeypatch.setattr(figures, "read", read)
    monkeypatch.setattr(figures.time, "monotonic", lambda: clock[0])
    reader = figures.Reader()
    for look in range(20):
        clock[0] = max(clock[0], look * 3.0)
        reader.read("")
    assert len(found) == reads


def test_the_console_s_limits_stand_beside_those_of_the_url() -> None:
    options = conninfo_to_dict(figures.patient("postgresql://a@b/c?options=-cgeqo%3Doff"))[
        "options"
    ]
    assert options == "-cgeqo=off -c statement_timeout=10s -c lock_timeout=2s"
