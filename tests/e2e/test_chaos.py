"""A very small run of the chaos suite; `make chaos` is the large one."""

from __future__ import annotations

from tests.chaos import evidence
from tests.chaos.plan import make_plan
from tests.chaos.scenario import Scenario


def test_killed_again_and_again_nothing_is_lost_and_nothing_is_sent_twice() -> None:
    """QUE-05: progress is per row; a kill at any point repeats nothing that was settled."""
    plan = make_plan(20, "ses", "at_most_once", messages=60, kills=6, freezes=("before_mark",))
    report = Scenario(plan).run()
    assert evidence.wrong(report.figures, plan) == [], report.line
    assert report.figures.messages == 60
    assert sum(report.kills.values()) > 0
