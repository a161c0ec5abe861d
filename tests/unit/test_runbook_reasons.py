"""docs/operations.md tells of each reason for which a gate closes what it is and what to do."""

from __future__ import annotations

import re
from pathlib import Path

from postlease import feedback, providers
from postlease.gate import closing

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
SECTION = PAGE.partition("### The provider is away\n")[2].partition("\n### ")[0]


def test_every_reason_for_which_a_gate_closes_has_a_row() -> None:
    assert providers.__file__
    sources = [path.read_text("utf-8") for path in Path(providers.__file__).parent.glob("*.py")]
    closed_by = {code for text in sources for code in re.findall(r'Blocked\(\s*"(\w+)"', text)}
    for module in (feedback, closing):
        text = Path(str(module.__file__)).read_text("utf-8")
        closed_by |= set(re.findall(r'(?:reason=|"reason": )"(\w+)"', text))
    assert {"unreachable", "sending_disabled", "sending_paused"} <= closed_by
    rows = re.findall(r"^\| (`.+?) \|", SECTION, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == closed_by
