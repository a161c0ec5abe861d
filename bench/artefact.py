"""Sizes of what SAM built, and how long its functions take to start.

`python -m bench.artefact`, after `make build` and `make setup-lambda`. A start is measured as the
Lambda host sees it: from the process to its first question for an event, by the real runtime
client, in a Python that has only what Lambda's runtime brings, on files that are as good as
read-only. Beside each function start two handlers made for comparison, in turn with it: one that
imports the function's third-party modules and nothing else, and one that imports nothing.
"""

from __future__ import annotations

import dataclasses
import io
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from local.built import Built
from local.keeper import Keeper
from local.runtime import INIT_SECONDS, Worker
from local.stack import ROOT, Stack

if TYPE_CHECKING:
    from local.runtime import FunctionDefinition

BUILT = Built(ROOT / ".aws-sam" / "build", ROOT / ".venv-lambda" / "bin" / "python")
STARTS = 15
LAYER_LIMIT_MB = 26
RATIO_LIMIT = 1.3
_MEGABYTE = 1_000_000
_HANDLER = "def handler(event, context): return None\n"
_LOADED = """
import sys
import awslambdaric.bootstrap, awslambdaric.lambda_runtime_client
before = set(sys.modules)
import app
for name, module in list(sys.modules.items()):
    path = getattr(module, "__file__", None) or ""
    if name not in before and any(path.startswith(folder + "/") for folder in sys.argv[1:]):
        print(name)
"""


class NotBuiltError(Exception):
    """Something that is measured is missing or does not start."""


def main() -> int:
    """Print both tables."""
    if not (BUILT.folder.is_dir() and BUILT.python.exists()):
        print("Nothing to measure: run `make artefact`.", file=sys.stderr)
        return 1
    _print_sizes()
    _print_starts()
    return 0


def size(folder: Path) -> tuple[int, int]:
    """Bytes of all files in folder, and of their zip."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return sum(path.stat().st_size for path in files), packed.tell()


def third_party(definition: FunctionDefinition) -> list[str]:
    """The modules of neither standard library nor product that importing the handler loads.

    In the order in which they were asked for; what the runtime client had loaded is left out.
    """
    folders = [folder for folder in definition.search_path if "Dependencies" in folder.parent.name]
    found = subprocess.run(
        [definition.python, "-c", _LOADED, *folders, definition.python.parents[1]],
        env={**definition.environment, "PYTHONPATH": _path(definition)},
        cwd=definition.root,
        capture_output=True,
        check=False,
        text=True,
    )
    if found.returncode:
        raise NotBuiltError(f"{definition.name}: {found.stderr.strip()}")
    return found.stdout.split()


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Milliseconds until a new process asked for its first event, and of the processor's time."""

    init: float
    processor: float


def start(definition: FunctionDefinition, keeper: Keeper, log: Path) -> Start:
    """Start a process, and end it when it asks for its first event."""
    with log.open("ab") as output:
        worker = Worker(definition, keeper, output)
    try:
        if not worker.ready.wait(INIT_SECONDS) or worker.init_milliseconds is None:
            raise NotBuiltError(f"{definition.name} does not start: {log.read_text()[-2000:]}")
        # The first figure is nanoseconds on a processor, of the thread that imports.
        spent = Path(f"/proc/{worker.pid}/schedstat").read_text().split()[0]
        return Start(worker.init_milliseconds, int(spent) / 1_000_000)
    finally:
        worker.kill()


def _path(definition: FunctionDefinition) -> str:
    return os.pathsep.join(str(folder) for folder in (definition.root, *definition.search_path))


def _print_sizes() -> None:
    print("| built | unzipped | zipped |\n|---|---|---|")
    for folder in sorted(path for path in BUILT.folder.iterdir() if path.is_dir()):
        unzipped, zipped = size(folder)
        print(f"| {folder.name} | {unzipped / _MEGABYTE:.2f} MB | {zipped / _MEGABYTE:.2f} MB |")
    print(f"\nA dependency layer may have {LAYER_LIMIT_MB} MB unzipped.\n")


def _print_starts() -> None:
    with Stack(built=BUILT) as stack, tempfile.TemporaryDirectory() as folder:
        definitions = [function.definition for function in stack.functions.values()]
        log = Path(folder) / "starts.log"
        keeper = Keeper()
        try:
            print("| function | init | its libraries alone | nothing | ratio | of processor time |")
            print("|---|---|---|---|---|---|")
            over = []
            for definition in definitions:
                found = _compared(definition, keeper, Path(folder), log)
                print(found.row(), flush=True)
                if found.processor_ratio > RATIO_LIMIT:
                    over.append(definition.name)
        finally:
            keeper.close()
    print(
        f"\nMedians of {STARTS} starts each, in turn. The ratio is that of init to the libraries"
        f" alone; {RATIO_LIMIT} is the limit. Other work on this machine disturbs the ratio of"
        " processor time less, so that one counts."
    )
    print(f"OVER THE LIMIT: {', '.join(over)}." if over else "All functions are within the limit.")


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A function's start beside those made for comparison: medians, in milliseconds."""

    name: str
    init: float
    libraries: float
    nothing: float
    processor_ratio: float

    def row(self) -> str:
        """Its row of the table."""
        times = " | ".join(f"{time:.0f} ms" for time in (self.init, self.libraries, self.nothing))
        mark = " **over**" if self.processor_ratio > RATIO_LIMIT else ""
        ratios = f"{self.init / self.libraries:.2f} | {self.processor_ratio:.2f}{mark}"
        return f"| {self.name} | {times} | {ratios} |"


def _compared(
    definition: FunctionDefinition, keeper: Keeper, folder: Path, log: Path
) -> Comparison:
    imports = "".join(f"import {name}\n" for name in third_party(definition))
    variants = (
        definition,
        instead(definition, folder / f"{definition.name}-libraries", imports + _HANDLER),
        instead(definition, folder / f"{definition.name}-nothing", _HANDLER),
    )
    starts: list[list[Start]] = [[] for _ in variants]
    for _ in range(STARTS + 1):
        for found, variant in zip(starts, variants, strict=True):
            found.append(start(variant, keeper, log))
    # The first of each warmed the file cache.
    init, libraries, nothing = (statistics.median(s.init for s in found[1:]) for found in starts)
    mine, theirs, _ = (statistics.median(s.processor for s in found[1:]) for found in starts)
    return Comparison(definition.name, init, libraries, nothing, mine / theirs)


def instead(definition: FunctionDefinition, root: Path, text: str) -> FunctionDefinition:
    """definition with a handler of that text, made in the new folder root."""
    root.mkdir()
    (root / "app.py").write_text(text)
    return dataclasses.replace(definition, root=root)


if __name__ == "__main__":
    sys.exit(main())
