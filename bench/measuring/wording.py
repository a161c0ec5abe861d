"""Figures and faults as they are read."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from bench.measuring.figures import Figure


def number(value: float) -> str:
    """With as many digits as tell something."""
    if value == 0:
        return "0"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def spread(figure: Figure) -> str:
    """The median, and the range if there is one."""
    if figure.low == figure.high:
        return number(figure.median)
    return f"{number(figure.median)} ({number(figure.low)} to {number(figure.high)})"


def fault(error: Exception) -> str:
    """What became of a case, without a place on this machine: it may stand on the page."""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if full or isinstance(error, psycopg.errors.DiskFull):
        return "the disk is full"
    return type(error).__name__
