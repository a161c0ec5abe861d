"""A run's connections: all of them stay for the next one, or none."""

from __future__ import annotations

import contextlib
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from postlease import config, delivery
from postlease.database import Database
from postlease.delivery import Connections, Times
from postlease.errors import UnavailableError

if TYPE_CHECKING:
    from tests.integration.delivery.conftest import Sweeps

NAMES = [field.name for field in fields(Connections)]


def kept_after_a_run(connections: Connections) -> list[str]:
    """Names of those that are open when a run with nothing to send has ended."""
    now = time.monotonic()
    with contextlib.suppress(UnavailableError):
        delivery.deliver(
            config.settings(), Times(now + 60, now), worker="worker", connections=connections
        )
    return [name for name in NAMES if getattr(connections, name).is_open]


@pytest.mark.usefixtures("sweeps")
def test_a_run_keeps_its_connections(connections: Connections) -> None:
    assert kept_after_a_run(connections) == NAMES


@pytest.mark.parametrize("missing", NAMES)
def test_a_run_that_lacks_one_leaves_the_others_to_whoever_can_use_them(
    sweeps: Sweeps, connections: Connections, missing: str
) -> None:
    """Where the server has not enough, two that kept two each would both send nothing."""
    del sweeps
    away = Database(lambda *, refresh: "host=127.0.0.1 port=1 user=nobody dbname=none")
    assert kept_after_a_run(replace(connections, **{missing: away})) == []
