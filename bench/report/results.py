"""The findings as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measuring.figures import short
from bench.report.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.measuring.findings import Finding


def results(
    findings: Sequence[Finding],
    *,
    failures: Mapping[str, str],
    machine: Mapping[str, Any],
    versions: Mapping[str, str],
    seconds: float,
) -> dict[str, Any]:
    """All of a run. Under `ratios` each key has a number: the median."""
    ratios = {key: ratio for finding in findings for key, ratio in finding.ratios.items()}
    return {
        "machine": dict(machine),
        "versions": dict(versions),
        "seconds": round(seconds),
        "ratios": {key: short(ratios[key].median) for key in TARGETS if key in ratios},
        "ranges": {key: ratios[key].plain() for key in TARGETS if key in ratios},
        "targets_met": {
            key: target.is_met(ratios[key].median)
            for key, target in TARGETS.items()
            if key in ratios
        },
        "failures": dict(failures),
        "cases": {
            finding.title: {
                "figures": finding.figures,
                "tables": [
                    [dict(zip(table.head, row, strict=True)) for row in table.rows]
                    for table in finding.tables
                ],
            }
            for finding in findings
        },
    }
