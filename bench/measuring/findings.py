"""What a case found: tables to read, ratios to compare, figures to keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.measuring.figures import Figure


@dataclass(frozen=True, slots=True)
class Table:
    """One table; its first column names the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """One group of a chart: what was measured, and a value for each name."""

    title: str
    unit: str
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one case found. told says what was done; ratios stand under their keys."""

    title: str
    told: str
    tables: tuple[Table, ...] = ()
    ratios: dict[str, Figure] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    bars: tuple[Bars, ...] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. rest: the larger counts by what they count."""

    turns: int
    messages: int
    with_peers: bool
    large: bool
