"""Every guard can complain: each mutant breaks one rule of the template and must be seen."""

from __future__ import annotations

import copy
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from samtranslator.model.exceptions import InvalidDocumentException

from postlease.config import TimeRules
from tests.template import (
    guards_code,
    guards_connections,
    guards_dashboard,
    guards_doors,
    guards_exposure,
    guards_permissions,
    guards_settings,
    guards_triggers,
    guards_watching,
    mutants_doors,
    mutants_runtime,
    mutants_security,
    mutants_watching,
)
from tests.template.deployment import deployment, source

if TYPE_CHECKING:
    from tests.template.deployment import Deployment
    from tests.template.mutant import Mutant

GUARDS = (
    guards_code,
    guards_connections,
    guards_dashboard,
    guards_doors,
    guards_exposure,
    guards_permissions,
    guards_settings,
    guards_triggers,
    guards_watching,
)
MUTANTS = [
    *mutants_doors.MUTANTS,
    *mutants_runtime.MUTANTS,
    *mutants_security.MUTANTS,
    *mutants_watching.MUTANTS,
]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return source()


@pytest.fixture(scope="module")
def whole(template: dict[str, Any]) -> Deployment:
    return deployment(template)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_template_is_seen(mutant: Mutant, whole: Deployment) -> None:
    complaints = mutant.guard(mutant.deployed(whole))
    assert any(mutant.says in complaint for complaint in complaints), complaints


def test_the_whole_template_draws_no_complaint_of_a_mutant(whole: Deployment) -> None:
    for mutant in MUTANTS:
        assert not any(mutant.says in complaint for complaint in mutant.guard(whole)), mutant.name


def test_a_function_that_names_no_handler_at_all_is_refused_by_sam_itself(
    template: dict[str, Any],
) -> None:
    nameless = copy.deepcopy(template)
    del nameless["Globals"]["Function"]["Handler"]
    with pytest.raises(InvalidDocumentException) as refusal:
        deployment(nameless)
    assert "'SweepFunction', 'Runtime and Handler needs to be present" in str(refusal.value)


def test_every_time_rule_has_a_mutant() -> None:
    """All rules between the times, told by times that break each of them."""
    second = timedelta(seconds=1)
    broken = TimeRules(
        call_budget=95 * second,
        connect_timeout=60 * second,
        read_timeout=60 * second,
        lease=20 * second,
        unknown_grace=second,
        start_margin=second,
        caller_margin=30 * second,
        sweep_timeout=90 * second,
        sweep_linger=90 * second,
    ).broken_rules(bounded_lease=True)
    assert len(broken) == 5
    said = [mutant.says for mutant in MUTANTS if mutant.guard is guards_settings.times]
    assert [rule for rule in broken if not any(rule.startswith(one) for one in said)] == []


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
