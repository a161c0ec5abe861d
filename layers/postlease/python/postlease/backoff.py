"""How long a message waits after a failed attempt. Pure: the caller brings the chance."""

from __future__ import annotations

from datetime import timedelta

STEPS = (
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(minutes=30),
)


def delay_after(failures: int, *, chance: float) -> timedelta:
    """The wait after the failures-th failed attempt in a row, 1 for the first.

    chance in [0, 1) spreads it over 0.5 to 1.5 times the step, so that what failed together does
    not come back together. The last step repeats.
    """
    step = STEPS[min(max(failures, 1), len(STEPS)) - 1]
    return step * (0.5 + chance)
