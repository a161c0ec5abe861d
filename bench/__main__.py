"""The benchmark: `python -m bench`, as `make bench` calls it.

One run on one PostgreSQL of its own. It writes bench/results.json and docs/performance.md with its
chart, and ends with status 1 if something could not be measured; a ratio that misses its aim is
told and is no error. --quick leaves the peers and the long cases out and only prints; so does
--only, which takes the cases' names.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.cases import CASES
from bench.measuring.cluster import ROOT, cluster
from bench.measuring.findings import Scale
from bench.measuring.progress import elapsed, tell
from bench.measuring.wording import spread
from bench.peers import others
from bench.peers.own import Own
from bench.report import chart, machine, page, results
from bench.report.targets import TARGETS

if TYPE_CHECKING:
    from bench.measuring.findings import Finding

RESULTS = ROOT / "bench" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
FULL = Scale(turns=3, messages=10_000, with_peers=True, large=True)
QUICK = Scale(turns=1, messages=10_000, with_peers=False, large=False)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under 90 seconds, without peers")
    parser.add_argument("--only", default="", help=f"of {', '.join(CASES)}; nothing is written")
    parser.add_argument("--turns", type=int, help="how often each queue runs; 3 unless quick")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name] or [
        name for name, case in CASES.items() if case.in_quick or not given.quick
    ]
    if unknown := set(names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    scale = QUICK if given.quick else FULL
    scale = replace(scale, turns=given.turns or scale.turns)
    about = machine.describe() | {"turns": scale.turns}
    versions: dict[str, str] = {}
    findings: list[Finding] = []
    failures: dict[str, str] = {}
    if scale.with_peers and any(CASES[name].wants_peers for name in names):
        tell("installing the peers")
        others.install()
        versions |= {peer.name: peer.version() for peer in others.PEERS}
    with cluster() as server:
        versions = {"PostgreSQL": server.version, **versions}
        for name in names:
            tell(name)
            try:
                finding = CASES[name].measure(server, scale)
            except Exception as error:  # noqa: BLE001 - the other cases are measured all the same
                traceback.print_exc()
                failures[name] = type(error).__name__
                continue
            findings.append(finding)
            _print(finding)
    if not given.quick and not given.only:
        settings = {one.name: one.settings for one in (Own(), *others.PEERS)}
        settings["PostgreSQL"] = "shared_buffers 1 GB, max_wal_size 8 GB"
        told: dict[str, Any] = {"machine": about, "versions": versions, "seconds": elapsed()}
        written = results.results(findings, failures=failures, **told)
        RESULTS.write_text(json.dumps(written, indent=2) + "\n")
        text = page.page(findings, failures=failures, settings=settings, **told)
        PAGE.write_text(text, "utf-8")
        bars = [group for finding in findings for group in finding.bars]
        PAGE.with_name(page.CHART).write_text(chart.chart(bars), "utf-8")
        tell(f"wrote {RESULTS.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    tell("done")
    return 1 if failures else 0


def _print(finding: Finding) -> None:
    print(f"\n## {finding.title}\n\n{finding.told}\n")
    for table in finding.tables:
        print(page.table(table))
    for key, ratio in finding.ratios.items():
        target = TARGETS[key]
        met = "" if target.is_met(ratio.median) else "  MISSED"
        print(f"{key} = {spread(ratio)}  ({target.bound}){met}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
