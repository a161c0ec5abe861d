"""docs/performance.md as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measuring.wording import spread
from bench.report.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.measuring.figures import Figure
    from bench.measuring.findings import Finding, Table

CHART = "performance.svg"

_HEAD = """# Performance

Written by `make bench`; change the bench and not this page. All figures are of one run on one
machine, and on one PostgreSQL with its default durability (fsync, synchronous_commit and
full_page_writes on). Figures are medians, with the range of the runs in brackets where there were
several. What is compared ran in turn, so a ratio says more than the two figures that it is made of.
"""

_LAMBDA = """## On a small Lambda

A function has a third of a virtual processor at 512 MB and a whole one at 1,769 MB; the sweep's
1,024 MB are {share:.0%} of one. Two things bound a sweep there: its processor time, and the
provider's answers. With the figures above, one sweep of 1,024 MB sends at most
{full} messages/s through a provider that answers at once, and at 512 MB {small}; the account's rate
at SES is lower for nearly everybody. The database's part is the server's processor time in the
tables, on the database's own machine. Between a function and its database lies a network: each
commit costs a round trip more, about a millisecond, and a batch shares it. None of this was
measured on Lambda.
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
    if lambda_part := _lambda(findings):
        parts.append(lambda_part)
    return "\n".join(parts)


def table(of: Table) -> str:
    """As Markdown."""
    lines = [of.head, tuple("---" for _ in of.head), *of.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


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
            f" {machine['load']}. Each queue ran {machine['turns']} times.\n"
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
    tables = "\n".join(table(one) for one in finding.tables)
    return f"## {finding.title}\n\n{finding.told}\n\n{tables}"


def _lambda(findings: Sequence[Finding]) -> str:
    for finding in findings:
        if cpu := finding.figures.get("full_path_cpu_per_1000"):
            share = 1_024 / 1_769
            return _LAMBDA.format(
                share=share,
                full=f"{share * 1_000 / cpu:,.0f}",
                small=f"{512 / 1_769 * 1_000 / cpu:,.0f}",
            )
    return ""
