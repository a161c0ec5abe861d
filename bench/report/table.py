"""A table as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.measuring.findings import Table


def markdown(of: Table) -> str:
    """Its lines, with an end of line behind each."""
    lines = [of.head, tuple("---" for _ in of.head), *of.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
