"""The page of cases names only tests that exist and hold the case, and leaves none of them out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cases.md").read_text("utf-8")
ROW = re.compile(r"^\| ([A-Z]{3}-\d\d) \| (.+?) \| (.+) \|$", re.MULTILINE)
ROWS: dict[str, tuple[str, list[str]]] = {
    case: (words, re.findall(r"`([^`]+)`", tests)) for case, words, tests in ROW.findall(PAGE)
}
GROUPS = {
    "QUE": 5,
    "LSE": 6,
    "PSN": 4,
    "SES": 5,
    "MIM": 6,
    "RCP": 3,
    "ATT": 4,
    "DBL": 4,
    "SCH": 3,
    "VER": 7,
    "HTP": 4,
    "SGN": 5,
    "RST": 5,
    "RSD": 3,
    "IDM": 3,
    "TPL": 5,
    "RET": 3,
}


def named_in_docstrings() -> dict[str, set[str]]:
    """The tests whose docstring names a case, as path::name, by case."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for case in re.findall(r"\b[A-Z]{3}-\d\d\b", ast.get_docstring(node) or ""):
                    test = f"{path.relative_to(ROOT)}::{node.name}"
                    found.setdefault(case, set()).add(test)
    return found


NAMED = named_in_docstrings()


def test_each_group_is_there_with_all_its_cases() -> None:
    groups = [case.partition("-")[0] for case in ROWS]
    assert {group: groups.count(group) for group in groups} == GROUPS


@pytest.mark.parametrize("case", ROWS)
def test_each_case_names_exactly_the_tests_that_name_it(case: str) -> None:
    words, tests = ROWS[case]
    assert len(words.split()) <= 5
    assert tests
    assert len(tests) == len(set(tests))
    assert set(tests) == NAMED.get(case, set())


def test_no_test_names_a_case_of_these_groups_that_is_not_on_the_page() -> None:
    assert {case for case in NAMED if case.partition("-")[0] in GROUPS} == set(ROWS)
