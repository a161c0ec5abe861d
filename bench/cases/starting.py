"""How long each function takes to start, against importing its libraries alone.

What was built for Lambda is measured if it lies there (`make artefact`); else the functions of this
folder, under the Python of this run.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import artefact
from bench.measuring.figures import Figure
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from local.keeper import Keeper
from local.stack import Stack

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale
    from local.runtime import FunctionDefinition

STARTS = 5
_HANDLER = "def handler(event, context): return None\n"


def cold_starts(cluster: Cluster, scale: Scale) -> Finding:
    """Each function and its libraries, started in turn."""
    del cluster, scale
    is_built = artefact.BUILT.folder.is_dir() and artefact.BUILT.python.exists()
    rows = []
    ratios: list[float] = []
    with (
        Stack(built=artefact.BUILT if is_built else None) as stack,
        tempfile.TemporaryDirectory() as folder,
    ):
        keeper = Keeper()
        try:
            for function in stack.functions.values():
                definition = function.definition
                init, libraries = _compared(definition, keeper, Path(folder))
                ratios.append(init / libraries)
                tell(f"  {definition.name}: {number(init)} ms, {ratios[-1]:.2f}")
                rows.append((definition.name, number(init), number(libraries), f"{ratios[-1]:.2f}"))
        finally:
            keeper.close()
    what = "What was built for Lambda" if is_built else "The functions of this folder, precompiled"
    return Finding(
        "Cold starts",
        f"{what}: from a new process to its first event, against a handler that imports the same"
        f" third-party modules and nothing else. Medians of {STARTS} starts each, in turn.",
        (Table(("function", "init ms", "libraries ms", "ratio"), tuple(rows)),),
        {"cold_start_vs_imports": Figure(max(ratios), min(ratios), max(ratios))},
    )


def _compared(definition: FunctionDefinition, keeper: Keeper, folder: Path) -> tuple[float, float]:
    """Milliseconds of init: the function's, and its libraries'."""
    imports = "".join(f"import {name}\n" for name in artefact.third_party(definition))
    alone = artefact.instead(
        definition, folder / f"{definition.name}-libraries", imports + _HANDLER
    )
    log = folder / "starts.log"
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(STARTS + 1):
        for times, variant in zip(found, (definition, alone), strict=True):
            started = artefact.start(variant, keeper, log)
            if turn:  # the first of each warmed the file cache
                times.append(started.init)
    return statistics.median(found[0]), statistics.median(found[1])
