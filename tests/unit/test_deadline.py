"""A call starts only if lease and invocation both have room for it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from postlease.delivery.deadline import Deadline

NEEDED = timedelta(seconds=20)


@pytest.mark.parametrize(
    ("lease", "invocation", "has_room"),
    [(30, 30, True), (10, 30, False), (30, 10, False), (10, 10, False)],
)
def test_both_the_lease_and_the_invocation_must_outlast_the_call(
    lease: int, invocation: int, *, has_room: bool
) -> None:
    now = time.monotonic()
    assert Deadline(now + lease, now + invocation).has_room(NEEDED) is has_room
