"""An overload is survived if each answer is clean and each that was accepted is there, once."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cases.overloading import told, verdict

SAID: dict[str, Any] = {
    "seconds": 2.0,
    "ended": 4.0,
    "answers": [[202, 8], [503, 2]],
    "milliseconds": [1.0, 2.0],
    "accepted": ["a@example.com"] * 8,
    "unanswered": {},
    "not_sent": 5,
}


def test_what_was_asked_is_what_was_answered_or_was_not() -> None:
    load = told({**SAID, "unanswered": {"TimeoutError": 2}})
    assert load.row("many")[1:4] == ("6.00", "2.00", "8 x 202, 2 x 503")


def test_refusals_are_clean() -> None:
    assert (
        verdict(told({**SAID, "answers": [[202, 1], [429, 1], [503, 1]]}), missing=0, doubled=0)
        == ""
    )


@pytest.mark.parametrize(
    ("changed", "counted", "words"),
    [
        ({"answers": [[202, 8], [500, 1]]}, {}, "answers that are not clean: {500: 1}"),
        ({"unanswered": {"TimeoutError": 3}}, {}, "without an answer: {'TimeoutError': 3}"),
        ({}, {"missing": 1}, "accepted and not there: 1"),
        ({}, {"doubled": 2}, "accepted once and there twice: 2"),
    ],
)
def test_whatever_else_is_told(
    changed: dict[str, Any], counted: dict[str, int], words: str
) -> None:
    counts = {"missing": 0, "doubled": 0} | counted
    assert verdict(told(SAID | changed), **counts) == words
