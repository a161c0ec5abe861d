"""How long each function takes to start, against importing its libraries alone.

Measured is a copy of the functions and of the package, compiled as `sam build` compiles them, under
the Python of this run. `make artefact` measures what SAM built, under Lambda's own Python.
"""

from __future__ import annotations

import compileall
import dataclasses
import py_compile
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import artefact
from bench.measuring.cluster import ROOT
from bench.measuring.figures import Figure
from bench.measuring.findings import Finding, Table
from bench.measuring.progress import tell
from bench.measuring.wording import number
from local.keeper import Keeper
from local.stack import Stack

if TYPE_CHECKING:
    from bench.artefact import Start
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale
    from local.runtime import FunctionDefinition

STARTS = 7
HEAD = (
    "function",
    "init ms",
    "libraries ms",
    "processor ms",
    "libraries' processor ms",
    "ratio of processor time",
)
_HANDLER = "def handler(event, context): return None\n"


def cold_starts(cluster: Cluster, scale: Scale) -> Finding:
    """Each function's start against that of its libraries alone, in turn."""
    del scale
    rows = []
    ratios: list[float] = []
    inits: list[float] = []
    with tempfile.TemporaryDirectory() as name, Stack(database_url=cluster.url) as stack:
        folder = Path(name)
        keeper = Keeper()
        package = compiled(ROOT / "layers" / "postlease" / "python", folder / "layer")
        try:
            for function in stack.functions.values():
                definition = as_built(function.definition, package, folder)
                own, libraries = _compared(definition, keeper, folder)
                inits.append(own.init)
                ratios.append(own.processor / libraries.processor)
                tell(f"  {definition.name}: {number(own.init)} ms, {ratios[-1]:.2f}")
                figures = (own.init, libraries.init, own.processor, libraries.processor)
                rows.append((definition.name, *map(number, figures), f"{ratios[-1]:.2f}"))
        finally:
            keeper.close()
    return Finding(
        "Cold starts",
        "Functions and package precompiled as they are deployed: from a new process to its first"
        " question for an event, against a handler that imports the same third-party modules and"
        f" nothing else. Medians of {STARTS} starts each, in turn. Other work on the machine"
        " disturbs the processor's time less than the clock's, so that one counts. What SAM built,"
        " under Lambda's Python: [measurements.md](measurements.md#cold-starts).",
        (Table(HEAD, tuple(rows)),),
        {"cold_start_vs_imports": Figure(max(ratios), min(ratios), max(ratios))},
        {"slowest_init_ms": max(inits)},
    )


def compiled(source: Path, target: Path) -> Path:
    """A copy of source without what was compiled before, compiled for a disk that never changes."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(target, quiet=1, invalidation_mode=mode)
    return target


def as_built(definition: FunctionDefinition, package: Path, folder: Path) -> FunctionDefinition:
    """definition with a compiled copy of its folder, and package for the first of its layers."""
    return dataclasses.replace(
        definition,
        root=compiled(definition.root, folder / definition.name),
        search_path=(package, *definition.search_path[1:]),
    )


def _compared(definition: FunctionDefinition, keeper: Keeper, folder: Path) -> tuple[Start, Start]:
    """The function's start, and one of its libraries: medians of each figure."""
    imports = "".join(f"import {name}\n" for name in artefact.third_party(definition))
    alone = artefact.instead(
        definition, folder / f"{definition.name}-libraries", imports + _HANDLER
    )
    log = folder / "starts.log"
    found: tuple[list[Start], list[Start]] = ([], [])
    for turn in range(STARTS + 1):
        for starts, variant in zip(found, (definition, alone), strict=True):
            start = artefact.start(variant, keeper, log)
            if turn:  # the first of each warmed the file cache
                starts.append(start)
    own, libraries = (
        artefact.Start(
            statistics.median(start.init for start in starts),
            statistics.median(start.processor for start in starts),
        )
        for starts in found
    )
    return own, libraries
