"""What `make chaos-mutants` takes out is there to be taken out."""

from __future__ import annotations

import pytest

from local.stack import ROOT
from tests.chaos.mutants import LAYER, MUTANTS, Edit

EDITS = [
    pytest.param(edit, id=f"{name}-{place}")
    for name, mutant in MUTANTS.items()
    for place, edit in enumerate(mutant.edits)
]


@pytest.mark.parametrize("edit", EDITS)
def test_each_guard_stands_where_its_mutant_looks_for_it(edit: Edit) -> None:
    text = (ROOT / LAYER / "postlease" / edit.module).read_text("utf-8")
    assert text.count(edit.fragment) == 1
