"""`docs/configuration.md` says what `config.py` does: names, defaults, bounds, parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from local.__main__ import SETTINGS
from postlease.config import read_settings
from postlease.errors import ConfigurationError
from tests.template.configuration import complete_for, is_required, known_variables
from tests.template.deployment import ROOT, Deployment, deployment, source

PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. default is None where there is none; choices are empty for numbers."""

    name: str
    is_required: bool
    default: str | None
    choices: tuple[str, ...]
    limits: tuple[int, int] | None
    parameter: str | None


def _row(line: str) -> Row:
    name, _, default, bounds, parameter = (cell.strip() for cell in line.strip("|\n").split("|"))
    numbers = re.fullmatch(r"(\d+) to (\d+)", bounds)
    coded = re.fullmatch(r"`(.+)`", default)
    named = re.fullmatch(r"`(.+)`", parameter)
    return Row(
        name=name.strip("`"),
        is_required=default == "required",
        default=coded[1] if coded else None,
        choices=tuple(re.findall(r"`(\w+)`", bounds)),
        limits=(int(numbers[1]), int(numbers[2])) if numbers else None,
        parameter=named[1] if named else None,
    )


ROWS = [_row(line) for line in PAGE.splitlines() if re.match(r"\| `[A-Z_]+` \|", line)]
LIMITED = [row for row in ROWS if row.limits]
CHOICES = [row for row in ROWS if row.choices]


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def test_the_table_names_every_variable_that_the_code_reads_once_and_no_other() -> None:
    assert sorted(row.name for row in ROWS) == sorted(known_variables())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_the_table_calls_required_is_required(row: Row) -> None:
    assert is_required(row.name) == row.is_required


@pytest.mark.parametrize("row", [row for row in ROWS if row.default], ids=lambda row: row.name)
def test_a_documented_default_is_the_codes(row: Row) -> None:
    without = {name: value for name, value in complete_for(row.name).items() if name != row.name}
    assert read_settings(without) == read_settings(without | {row.name: row.default or ""})


@pytest.mark.parametrize("row", LIMITED, ids=lambda row: row.name)
def test_a_number_beyond_its_documented_bounds_is_refused_by_name(row: Row) -> None:
    low, high = row.limits or (0, 0)
    for value in (str(low - 1), str(high + 1)):
        with pytest.raises(ConfigurationError, match=row.name):
            read_settings(complete_for(row.name) | {row.name: value})


def _complaint(name: str, value: int) -> str:
    try:
        read_settings(complete_for(name) | {name: str(value)})
    except ConfigurationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", LIMITED, ids=lambda row: row.name)
def test_a_number_at_its_documented_bounds_breaks_at_most_a_rule_between_them(row: Row) -> None:
    for value in row.limits or ():
        complaint = _complaint(row.name, value)
        assert not complaint or re.search(r"must be (at least|at most|below) [A-Z_]+", complaint)


@pytest.mark.parametrize("row", CHOICES, ids=lambda row: row.name)
def test_every_documented_choice_is_accepted_and_no_other(row: Row) -> None:
    for choice in row.choices:
        read_settings(complete_for(row.name) | {row.name: choice})
    with pytest.raises(ConfigurationError, match=f"{row.name} must be one of") as refusal:
        read_settings(complete_for(row.name) | {row.name: "other"})
    assert str(refusal.value).endswith(", ".join(row.choices))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_documented_parameter_sets_the_variable(row: Row, deployed: Deployment) -> None:
    variables = deployed.functions()["MigrateFunction"]["Environment"]["Variables"]
    value = variables.get(row.name)
    reference = value.get("Ref") if isinstance(value, dict) else None
    declared = reference if reference in deployed.source["Parameters"] else None
    assert declared == row.parameter


def test_what_dev_hands_on_is_what_the_page_says() -> None:
    sentence = re.search(r"`make dev` takes (.*?) as variables", PAGE, re.DOTALL)
    assert sentence
    *single, first, last = re.findall(r"`([A-Z_]+)`", sentence[1])
    names = [row.name for row in ROWS]
    assert [*single, *names[names.index(first) : names.index(last) + 1]] == list(SETTINGS)
