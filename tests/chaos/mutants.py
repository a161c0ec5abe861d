"""The product with one guard taken out of its source, in a copy: a run of it has to turn red."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.stack import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.plan import Policy, Provider

LAYER = Path("layers/postlease/python")
_FENCES = (("outbox/dispatching.py", "asked"), ("outbox/recording.py", "told"))
"""Where the fence stands, and what the claims that are compared with are called there."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Every occurrence of fragment in a module of the package becomes replacement."""

    module: str
    fragment: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A guard, where it stands, and the scenario that has to notice, with its freezes."""

    what: str
    edits: tuple[Edit, ...]
    scenario: tuple[Provider, Policy]
    freezes: tuple[str, ...]


MUTANTS = {
    "fence": Mutant(
        "authorize and record ask for neither owner nor attempt",
        tuple(
            Edit(module, f"\n          AND {condition}", "")
            for module, claims in _FENCES
            for condition in (
                f"m.lease_owner = {claims}.owner",
                f"m.attempt_count = {claims}.attempt",
            )
        ),
        ("ses", "at_most_once"),
        ("before_mark",) * 12,
    ),
    "mark": Mutant(
        "authorize leaves no mark",
        (
            Edit(
                "outbox/dispatching.py",
                "dispatched_at = CASE j.verdict WHEN 'go' THEN now() END",
                "dispatched_at = NULL",
            ),
        ),
        ("ses", "at_most_once"),
        ("in_client",),
    ),
    "last-line": Mutant(
        "no look at the clock between the mark and the call",
        (
            Edit(
                "delivery/sending.py",
                "if not in_turn or not deadline.has_room(self._needed):",
                "if False:",
            ),
        ),
        ("ses", "at_least_once"),
        ("before_last_line",) * 3,
    ),
}


@contextmanager
def mutated(mutant: Mutant) -> Iterator[Path]:
    """The template of a deployment whose layer is a copy with the guard taken out."""
    with tempfile.TemporaryDirectory(prefix="postlease-mutant-") as name:
        folder = Path(name)
        shutil.copy(ROOT / "template.yaml", folder)
        for link in ("functions", "sql"):
            (folder / link).symlink_to(ROOT / link, target_is_directory=True)
        shutil.copytree(ROOT / LAYER, folder / LAYER, ignore=shutil.ignore_patterns("__pycache__"))
        for edit in mutant.edits:
            module = folder / LAYER / "postlease" / edit.module
            text = module.read_text("utf-8")
            if edit.fragment not in text:
                raise LookupError(f"{edit.module} has no such guard: {edit.fragment.strip()}")
            module.write_text(text.replace(edit.fragment, edit.replacement), "utf-8")
        yield folder / "template.yaml"
