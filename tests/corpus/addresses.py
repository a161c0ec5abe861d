"""Addresses of dominicsayers/isemail: who is right is written down for each that we see otherwise.

Its verdict is that of its own default: what SMTP carries is valid, what only a header may hold is
not. Ours is whether a sign-up is accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Answer

VALID = {"ISEMAIL_VALID_CATEGORY", "ISEMAIL_DNSWARN", "ISEMAIL_RFC5321"}
_ROW = re.compile(r"^\| (\d[\d, ]*) \| (accepted|refused) \|", re.MULTILINE)


def run(
    file: Path, page: str, send: Callable[[dict[str, str]], Answer]
) -> tuple[Counter[str], list[str]]:
    """Counts by both verdicts, and what is wrong: an answer, or a row that does not hold."""
    counts: Counter[str] = Counter()
    wrong = []
    found: dict[int, str] = {}
    for number, address, is_valid in read(file):
        answer = send({"email": address})
        if answer.status not in {202, 400, 422}:
            wrong.append(f"address {number}: answered {answer.status}")
        ours = "accepted" if answer.status == 202 else "refused"
        counts[f"{'valid' if is_valid else 'not valid'} there, {ours} here"] += 1
        if is_valid != (ours == "accepted"):
            found[number] = ours
    written = table(page)
    wrong += [
        f"address {number}: {found.get(number, 'no difference')} here,"
        f" {written.get(number, 'not')} in the table"
        for number in sorted(set(found) | set(written))
        if found.get(number) != written.get(number)
    ]
    return counts, wrong


def read(file: Path) -> list[tuple[int, str, bool]]:
    """Number, address and verdict; symbols stand for control characters there."""
    root = ET.parse(file).getroot()  # noqa: S314  a file that the caller chose
    return [
        (
            int(test.attrib["id"]),
            re.sub(
                "[\u2400-\u241f]",
                lambda match: chr(ord(match[0]) - 0x2400),
                test.findtext("address") or "",
            ),
            test.findtext("category") in VALID,
        )
        for test in root.iter("test")
    ]


def table(page: str) -> dict[int, str]:
    """The rows of the page: our verdict by number."""
    return {
        int(number): verdict
        for numbers, verdict in _ROW.findall(page)
        for number in numbers.split(",")
    }
