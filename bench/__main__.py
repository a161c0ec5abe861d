"""The benchmark: one run on one PostgreSQL of its own, as `make bench` calls it.

It writes bench/results.json, docs/performance.md with its chart, and the README's figures. It ends
with status 1 if something could not be measured; a ratio that misses its aim is told and is no
error. What is not the whole of it (--quick, --only, --without-peers, fewer than three turns) is
only printed.

The server is made for the run, with its default durability, and is gone with it; DATABASE_URL is
not asked.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

from bench import asking
from bench.cases import CASES
from bench.cases.queues import MANY_SLOTS, SLOTS
from bench.measuring.children import ChildError
from bench.measuring.cluster import ROOT, cluster
from bench.measuring.progress import elapsed, tell
from bench.measuring.wording import fault, spread
from bench.peers import others
from bench.peers.own import Own
from bench.report import chart, machine, page, readme, results
from bench.report.table import markdown
from bench.report.targets import TARGETS
from local.binaries import PostgresError

if TYPE_CHECKING:
    from bench.asking import Plan
    from bench.measuring.findings import Finding

RESULTS = ROOT / "bench" / "results.json"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "performance.md"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    asked = asking.plan(arguments, about=__doc__ or "")
    if reason := asking.obstacle(asked):
        return _refuse(reason)
    about = machine.describe() | {"turns": asked.scale.turns}
    versions: dict[str, str] = {}
    if asked.wants_peers:
        tell("installing the peers")
        try:
            others.install()
            versions = {peer.name: peer.version() for peer in others.PEERS}
        except (ChildError, OSError) as error:
            return _refuse(f"the peers cannot be installed (--without-peers does without): {error}")
    try:
        version, findings, failures = _measure(asked)
    except PostgresError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return _refuse("interrupted; nothing was written")
    if asked.writes:
        versions = {Own.name: Own().version(), "PostgreSQL": version, **versions}
        _write(findings, failures, machine=about, versions=versions, seconds=elapsed())
    for name, text in failures.items():
        tell(f"NOT MEASURED: {name}: {text}")
    tell("done")
    return 1 if failures else 0


def _measure(asked: Plan) -> tuple[str, list[Finding], dict[str, str]]:
    """The server's version, what was found, and what went wrong in which case."""
    findings: list[Finding] = []
    failures: dict[str, str] = {}
    with cluster() as server:
        version = server.version
        for place, name in enumerate(asked.names, 1):
            tell(f"{name} ({place} of {len(asked.names)})")
            try:
                finding = CASES[name].measure(server, asked.scale)
            except Exception as error:  # noqa: BLE001 - the other cases are measured all the same
                traceback.print_exc()
                failures[name] = fault(error)
                continue
            findings.append(finding)
            _print(finding)
    return version, findings, failures


def _write(findings: list[Finding], failures: dict[str, str], **told: Any) -> None:
    settings = {peer.name: peer.settings for peer in others.PEERS}
    settings[Own.name] = f"{SLOTS} send slots, {MANY_SLOTS:,} on the queue path alone"
    settings["PostgreSQL"] = "shared_buffers 1 GB, max_wal_size 8 GB"
    written = results.results(findings, failures=failures, **told)
    RESULTS.write_text(json.dumps(written, indent=2) + "\n")
    text = page.page(findings, failures=failures, settings=settings, **told)
    PAGE.write_text(text, "utf-8")
    bars = [group for finding in findings for group in finding.bars]
    PAGE.with_name(page.CHART).write_text(chart.chart(bars), "utf-8")
    README.write_text(readme.written(README.read_text("utf-8"), written), "utf-8")
    tell(f"wrote {RESULTS.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


def _print(finding: Finding) -> None:
    print(f"\n## {finding.title}\n\n{finding.told}\n")
    for table in finding.tables:
        print(markdown(table))
    for key, ratio in finding.ratios.items():
        target = TARGETS[key]
        met = "" if target.is_met(ratio.median) else "  MISSED"
        print(f"{key} = {spread(ratio)}  ({target.bound}){met}")
    print(flush=True)


def _refuse(reason: str) -> int:
    print(f"bench: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
