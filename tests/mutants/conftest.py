"""Mutants show what the tests hold. They run nothing that is not run, and measured, elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def unmeasured() -> Iterator[None]:
    """Measuring a test costs a third of its time, and here nothing is learnt by it."""
    if (measuring := Coverage.current()) is None:
        yield
        return
    measuring.stop()
    yield
    measuring.start()
