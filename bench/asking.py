"""What the command was asked for, and what stands in its way."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.cases import CASES
from bench.measuring.arguments import whole
from bench.measuring.findings import Scale
from bench.peers import others

if TYPE_CHECKING:
    from collections.abc import Iterator

TURNS = 3
MESSAGES = 10_000
FREE_GB = 15
"""What the whole run wants on the disk of temporary files: five million rows, and their WAL."""
LITTLE_GB = 3
_EPILOG = """cases, those of --quick with a star:
{cases}

examples:
  python -m bench                                        all, 15 minutes; writes the page
  python -m bench --quick                                90 seconds on two quiet cores
  python -m bench --only queue,latency50 --turns 1       two cases, once
  python -m bench --only queue --without-peers           only what needs no other queue

Run it where nothing else wants the processors: other work is measured too.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases in turn, how much of each, and whether results and page are written."""

    names: tuple[str, ...]
    scale: Scale
    writes: bool

    @property
    def wants_peers(self) -> bool:
        """Whether another queue has to be installed."""
        return self.scale.with_peers and any(CASES[name].wants_peers for name in self.names)

    @property
    def wants_gigabytes(self) -> int:
        """Free room that it takes."""
        is_long = self.scale.large and {"history", "retention"} & set(self.names)
        return FREE_GB if is_long else LITTLE_GB


def plan(arguments: list[str] | None, *, about: str) -> Plan:
    """What arguments ask for; ends the process with status 2 if that is nothing there is."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=about,
        epilog=_EPILOG.format(cases="\n".join(_told())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the short cases, once, on less, without other queues; writes nothing",
    )
    parser.add_argument(
        "--only",
        metavar="CASES",
        help="only these, with commas between them; writes nothing",
    )
    parser.add_argument(
        "--without-peers", action="store_true", help="no other queue; writes nothing"
    )
    parser.add_argument(
        "--turns",
        type=whole(1),
        metavar="N",
        help="how often each queue runs where queues are compared:"
        f" {TURNS} times, once if quick; fewer than {TURNS} write nothing",
    )
    given = parser.parse_args(arguments)
    # As they stand, each once.
    chosen = list(dict.fromkeys(name.strip() for name in (given.only or "").split(",")))
    chosen = [name for name in chosen if name]
    if given.only is not None and not chosen:
        parser.error(f"--only names no case; there are {', '.join(CASES)}")
    if unknown := sorted(set(chosen) - set(CASES)):
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    names = chosen or [name for name, case in CASES.items() if case.in_quick or not given.quick]
    turns = given.turns or (1 if given.quick else TURNS)
    with_peers = not (given.quick or given.without_peers)
    return Plan(
        tuple(names),
        Scale(turns=turns, messages=MESSAGES, with_peers=with_peers, large=not given.quick),
        writes=with_peers and not chosen and turns >= TURNS,
    )


def _told() -> Iterator[str]:
    """A line for each case: its name, whether the quick form has it, its question."""
    for name, case in CASES.items():
        question = (case.measure.__doc__ or "").partition("\n")[0]
        yield f"  {name:<12} {'*' if case.in_quick else ' '} {question}"


def obstacle(asked: Plan) -> str:
    """Why it cannot be done, in one line that says what to do; empty if nothing is known."""
    free = shutil.disk_usage(tempfile.gettempdir()).free / 1e9
    if free < asked.wants_gigabytes:
        return (
            f"{free:.0f} GB are free for temporary files and {asked.wants_gigabytes} are wanted:"
            " set TMPDIR to a folder with more room, or leave the long cases out (--quick)"
        )
    return others.missing() if asked.wants_peers else ""
