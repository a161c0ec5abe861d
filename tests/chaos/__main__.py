"""`make chaos`: six scenarios, a line each; the exit status is 1 if a figure is wrong."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from typing import TYPE_CHECKING

from local.stack import ROOT
from tests.chaos import evidence
from tests.chaos.mutants import MUTANTS, mutated
from tests.chaos.plan import POLICIES, PROVIDERS, SETTINGS, Plan, Policy, Provider, make_plan
from tests.chaos.scenario import Report, Scenario

if TYPE_CHECKING:
    from pathlib import Path

SIZES: dict[Provider, tuple[int, int]] = {
    "ses": (5_000, 105),
    "idempotent": (5_000, 105),
    "smtp": (1_000, 24),
}
"""Messages and kills."""

QUICK_SIZE = (200, 14)
MUTANT_SIZE = (200, 14)


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    names = [f"{provider}:{policy}" for provider in PROVIDERS for policy in POLICIES]
    parser.add_argument("--seed", type=int, help="decides the plan; drawn and printed if left out")
    parser.add_argument(
        "--scenario",
        action="append",
        choices=[*names, *PROVIDERS],
        help="only this one (repeatable)",
    )
    parser.add_argument("--messages", type=int, help="instead of 5,000 (smtp: 1,000)")
    parser.add_argument("--kills", type=int, help="instead of 105 (smtp: 24)")
    parser.add_argument("--quick", action="store_true", help="200 messages, 14 kills each")
    parser.add_argument(
        "--mutant", choices=[*MUTANTS, "all"], help="run with this guard taken out; has to fail"
    )
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(1_000_000)
    say(f"chaos: seed={seed}")
    say("settings: " + " ".join(f"{name}={value}" for name, value in SETTINGS.items()))
    if arguments.mutant:
        return _run_mutants(
            seed, list(MUTANTS) if arguments.mutant == "all" else [arguments.mutant]
        )
    wanted = arguments.scenario or names
    failed = []
    began = time.monotonic()
    lines = []
    for provider in PROVIDERS:
        for policy in POLICIES:
            if not {provider, f"{provider}:{policy}"} & set(wanted):
                continue
            messages, kills = QUICK_SIZE if arguments.quick else SIZES[provider]
            plan = make_plan(
                seed,
                provider,
                policy,
                messages=arguments.messages or messages,
                kills=arguments.kills or kills,
            )
            report = run(plan)
            lines.append(report.line)
            failed += [f"{provider}:{policy}: {sentence}" for sentence in report.wrong]
    say(f"took {time.monotonic() - began:.0f} s")
    for line in lines:
        say(line)
    for sentence in failed:
        say(f"WRONG: {sentence}")
    return 1 if failed else 0


def run(plan: Plan, template: Path | None = None) -> Report:
    """One scenario, with what happened in it."""
    say(f"\n{plan.provider} {plan.policy}: plan {plan.digest}, {len(plan.actions)} actions")
    report = Scenario(plan, template=template or ROOT / "template.yaml", say=say).run()
    say("  kills  " + _words(report.kills))
    say("  also   " + _words(report.done))
    say("  rows   " + report.figures.details())
    say(f"  took {report.seconds:.1f} s")
    for sentence in report.wrong:
        say(f"  WRONG: {sentence}")
    say(report.line)
    return report


def _run_mutants(seed: int, names: list[str]) -> int:
    """0 when every mutant turned its run red."""
    survived = []
    for name in names:
        mutant = MUTANTS[name]
        say(f"\nmutant {name}: {mutant.what}")
        with mutated(mutant) as template:
            provider, policy = mutant.scenario
            messages, kills = MUTANT_SIZE
            plan = make_plan(
                seed, provider, policy, messages=messages, kills=kills, freezes=mutant.freezes
            )
            report = run(plan, template)
        if evidence.wrong(report.figures, plan):
            say(f"mutant {name}: red, as it has to be")
        else:
            say(f"mutant {name}: SURVIVED")
            survived.append(name)
    say(f"chaos-mutants: {len(names) - len(survived)} of {len(names)} turned the run red")
    return 1 if survived else 0


def _words(numbers: dict[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in numbers.items())


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


__all__ = ["Policy", "main", "run"]

if __name__ == "__main__":
    sys.exit(main())
