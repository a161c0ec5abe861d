"""Hostile parts go in, and a parser that shares nothing with the composer finds the same ones.

`make test-node` asks a second parser, about far more of them.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from postlease.errors import TemplateError
from tests import hostile
from tests.hostile import Choice

SEED = 20260301


def faults(given: hostile.Parts, wanted: hostile.Parts, number: int) -> list[str]:
    content = hostile.composed(given, number=number)
    found = hostile.differences(wanted, *hostile.read(content)) + hostile.faults_of(content)
    return [f"no. {number}: {fault}" for fault in found]


def test_generated_mails_come_back_as_their_parts() -> None:
    """MIM-01, MIM-03, MIM-08, MIM-10, ATT-01."""
    mails = hostile.made(SEED, 100)
    assert [
        fault for number, mail in enumerate(mails) for fault in faults(mail, mail, number)
    ] == []


def test_each_value_of_the_cases_comes_back_as_its_reader_is_to_have_it() -> None:
    """MIM-01, MIM-03, MIM-04, MIM-08, MIM-10, ATT-01, ATT-03."""
    rows = hostile.each_once()
    assert [
        fault
        for number, row in enumerate(rows)
        for fault in faults(row.given(), row.wanted(), number)
    ] == []


REFUSED = [
    *(("name", value, "From") for value in hostile.REFUSED_NAMES),
    *(("subject", value, "Subject") for value in hostile.REFUSED_SUBJECTS),
    *(("filename", value, "Content-Disposition") for value in hostile.REFUSED_FILENAMES),
    *(("address", value, "To") for value in hostile.REFUSED_ADDRESSES),
]


@pytest.mark.parametrize(("axis", "value", "header"), REFUSED)
def test_what_could_begin_another_header_or_address_is_refused_by_name(
    axis: str, value: str, header: str
) -> None:
    """MIM-03, MIM-06, RCP-03, ATT-03."""
    with pytest.raises(TemplateError, match=f"^invalid_header: {header}$"):
        hostile.composed(Choice(**{axis: value}).given())


def test_all_pairs_are_there() -> None:
    """The larger test's own ground: no two values of different axes are left apart."""
    axes = ("name", "subject", "filename", "address", "parameter")
    values = (
        hostile.NAMES,
        hostile.SUBJECTS,
        hostile.FILENAMES,
        hostile.ADDRESSES,
        hostile.PARAMETERS,
    )
    rows = hostile.accepted_pairs()
    for (one, of_one), (two, of_two) in combinations(zip(axes, values, strict=True), 2):
        pairs = {(getattr(row, one), getattr(row, two)) for row in rows}
        assert len(pairs) == len(of_one) * len(of_two)
