"""docs/performance.md as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measuring.wording import spread
from bench.report.outlook import outlook
from bench.report.table import markdown
from bench.report.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.measuring.figures import Figure
    from bench.measuring.findings import Finding

CHART = "performance.svg"

_HEAD = """# Performance

Written by `make bench`; change the bench and not this page. All figures are of one run on one
machine, and on one PostgreSQL with its default durability (fsync, synchronous_commit and
full_page_writes on). Figures are medians, with the range of the runs in brackets where there were
several. What is compared ran in turn, so a ratio says more than the two figures that it is made of.
CPU s/1,000 is seconds of processor time for 1,000 messages: of the worker's process, and of all of
PostgreSQL's. p50 and p99 are the times that half, and 99 of 100, do not exceed. An aim is the
project's own; those that are missed stand here as the others do.
"""


def page(
    findings: Sequence[Finding],
    *,
    failures: Mapping[str, str],
    machine: Mapping[str, Any],
    versions: Mapping[str, str],
    settings: Mapping[str, str],
    seconds: float,
) -> str:
    """The whole page."""
    ratios = {key: ratio for finding in findings for key, ratio in finding.ratios.items()}
    parts = [_HEAD, _where(machine, versions, settings, seconds), _aims(ratios)]
    if any(finding.bars for finding in findings):
        parts.append(f"![Messages a second of each queue]({CHART})\n")
    parts += [_case(finding) for finding in findings]
    if failures:
        listed = "\n".join(f"- {name}: {text}" for name, text in failures.items())
        parts.append(f"## Not measured\n\n{listed}\n")
    parts.append(outlook(findings))
    return "\n".join(parts)


def _where(
    machine: Mapping[str, Any],
    versions: Mapping[str, str],
    settings: Mapping[str, str],
    seconds: float,
) -> str:
    lines = [
        "## Where and with what\n",
        (
            f"{machine['measured_at']}, {seconds / 60:.0f} minutes on {machine['cores']} cores of"
            f" {machine['processor']}, {machine['memory_gb']} GB, {machine['system']}, kernel"
            f" {machine['kernel']}, Python {machine['python']}; load at the start"
            f" {machine['load']}. Where queues are compared, each ran {machine['turns']} times.\n"
        ),
        "| what | version | settings |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {version} | {settings.get(name, '')} |" for name, version in versions.items()
    ]
    return "\n".join(lines) + "\n"


def _aims(ratios: Mapping[str, Figure]) -> str:
    lines = ["## Ratios\n", "| ratio | measured | aim | met |", "|---|---|---|---|"]
    for key, target in TARGETS.items():
        if key in ratios:
            met = "yes" if target.is_met(ratios[key].median) else "**no**"
            lines.append(f"| {target.says} | {spread(ratios[key])} | {target.bound} | {met} |")
    return "\n".join(lines) + "\n"


def _case(finding: Finding) -> str:
    tables = "\n".join(markdown(one) for one in finding.tables)
    return f"## {finding.title}\n\n{finding.told}\n\n{tables}"
