"""Bars as an SVG that reads on light and on dark ground."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bench.measuring.wording import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measuring.findings import Bars

_WIDTH = 760
_LINE = 24
_LEFT = 190
_LONGEST = 420
_OWN, _OTHER, _TEXT = "#2f7ed8", "#9aa5b1", "#7d8590"


def chart(groups: Sequence[Bars]) -> str:
    """One SVG with the groups below each other; each group has a scale of its own."""
    lines: list[str] = []
    y = 0
    for group in groups:
        y += _LINE + 6
        lines.append(_text(0, y, f"{group.title} ({group.unit})", weight="bold"))
        most = max(group.values.values(), default=1) or 1
        for name, value in sorted(group.values.items(), key=lambda pair: -pair[1]):
            y += _LINE
            width = max(round(value / most * _LONGEST), 1)
            colour = _OWN if name.startswith("Postlease") else _OTHER
            lines.append(_text(_LEFT - 8, y, name, anchor="end"))
            lines.append(
                f'<rect x="{_LEFT}" y="{y - 13}" width="{width}" height="16" fill="{colour}"/>'
            )
            lines.append(_text(_LEFT + width + 8, y, number(value)))
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 12}"'
        f' width="{_WIDTH}" font-family="system-ui, sans-serif" font-size="13">\n{body}\n</svg>\n'
    )


def _text(x: int, y: int, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{_TEXT}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{escape(words)}</text>'
    )
