"""The seed decides, and every point gets its share."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.__main__ import SIZES
from tests.chaos.plan import FREEZES, POINTS, POLICIES, PROVIDERS, Policy, Provider, make_plan


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    plans = [make_plan(seed, "ses", "at_least_once", messages=500, kills=20) for seed in (7, 7, 8)]
    assert plans[0] == plans[1]
    assert plans[0].digest == plans[1].digest != plans[2].digest


def test_scenarios_of_one_seed_differ() -> None:
    digests = {
        make_plan(7, provider, policy, messages=500, kills=20).digest
        for provider in PROVIDERS
        for policy in POLICIES
    }
    assert len(digests) == len(PROVIDERS) * len(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_full_scenario_kills_enough_at_each_point_and_in_all(
    provider: Provider, policy: Policy
) -> None:
    messages, kills = SIZES[provider]
    plan = make_plan(1, provider, policy, messages=messages, kills=kills)
    where = Counter(action.where for action in plan.actions if action.kind == "kill")
    assert plan.kills == kills >= (20 if provider == "smtp" else 100)
    assert min(where[point] for point in POINTS) >= (3 if provider == "smtp" else 10)
    assert {action.where for action in plan.actions if action.kind == "freeze"} == set(FREEZES)
    assert any(action.kind == "restart" for action in plan.actions)


def test_nothing_falls_due_when_no_traffic_is_left_for_it() -> None:
    plan = make_plan(1, "ses", "at_least_once", messages=1_000, kills=50)
    assert max(action.due for action in plan.actions) <= 800
    assert list(plan.actions) == sorted(plan.actions, key=lambda action: action.due)
