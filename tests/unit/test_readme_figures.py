"""Every figure of the README is one that was measured, or a setting's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench.report import readme

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = json.loads((ROOT / "bench" / "results.json").read_text("utf-8"))
MEASURED = "\n".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("performance.md", "measurements.md")
)
# The provider's read timeout, the gate's probe, the lease, lease and grace, the gate's longest.
SETTINGS = {"10 s", "30 s", "45 s", "165 s", "10 min"}
FIGURE = re.compile(
    r"(?<![\w.])(?:\d[\d,.]* (?:s|ms|min|h|MB|GB|kB|tests|(?:messages|mails|sends)/s)"
    r"|\d[\d,.]* ?(?:%|times)|\d[\d,.]*/s)(?!\w)"
)


def prose(text: str) -> str:
    """What is no code and no address."""
    return re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|<[^>]*>", "", text, flags=re.DOTALL)


def test_the_figures_of_the_bench_are_those_of_the_last_run() -> None:
    assert readme.written(README, RESULTS) == README


def test_a_figure_of_the_readme_stands_on_a_page_of_measurements() -> None:
    shown = readme.figures(RESULTS)
    elsewhere = README.replace(shown, "")
    unknown = [
        figure
        for figure in FIGURE.findall(prose(elsewhere))
        if figure not in SETTINGS and not re.search(rf"(?<!\d){re.escape(figure)}", MEASURED)
    ]
    assert not unknown


def test_a_figure_of_the_bench_stands_on_its_page() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    shown = re.findall(r"^\|.*\| ([\d,.]+) \S+ \|$", readme.figures(RESULTS), re.MULTILINE)
    assert shown
    assert all(re.search(rf"(?<![\d,.]){re.escape(one)}(?![\d,])", page) for one in shown)


def test_a_readme_without_a_place_for_its_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        readme.written("# Postlease\n", RESULTS)


def test_figures_that_were_not_measured_are_left_out() -> None:
    partial = RESULTS | {"cases": {"Full path": RESULTS["cases"]["Full path"]}}
    assert readme.figures(partial).count("\n| ") == 2  # the rule under the head, and one line
