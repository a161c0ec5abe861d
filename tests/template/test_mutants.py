"""Every guard can complain: each mutant breaks one rule of the template and must be seen."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from tests.template import (
    guards_code,
    guards_exposure,
    guards_permissions,
    guards_settings,
    guards_triggers,
    guards_watching,
    mutants_runtime,
    mutants_security,
)
from tests.template.deployment import deployment, source

if TYPE_CHECKING:
    from tests.template.mutant import Mutant

GUARDS = (
    guards_code,
    guards_exposure,
    guards_permissions,
    guards_settings,
    guards_triggers,
    guards_watching,
)
MUTANTS = [*mutants_runtime.MUTANTS, *mutants_security.MUTANTS]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return source()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_template_is_seen(mutant: Mutant, template: dict[str, Any]) -> None:
    complaints = mutant.guard(deployment(mutant.applied(template)))
    assert any(mutant.says in complaint for complaint in complaints), complaints


def test_the_whole_template_draws_no_complaint_of_a_mutant(template: dict[str, Any]) -> None:
    whole = deployment(template)
    for mutant in MUTANTS:
        assert not any(mutant.says in complaint for complaint in mutant.guard(whole)), mutant.name


def test_every_guard_has_a_mutant() -> None:
    guards = {
        found
        for module in GUARDS
        for name, found in inspect.getmembers(module, inspect.isfunction)
        if found.__module__ == module.__name__
        and found.__annotations__["return"] == "list[str]"
        and not name.startswith("_")
    }
    assert guards == {mutant.guard for mutant in MUTANTS}
