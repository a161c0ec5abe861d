"""Mails of hostile parts, read by two parsers that know nothing of each other or of the composer.

Python's is asked here, postal-mime in one process of Node for each test. `MAILS` is how many are
generated, `SEED` from what; both can be set, and a failure names the seed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postlease.errors import TemplateError
from tests import hostile
from tests.hostile import Choice, Parts

if TYPE_CHECKING:
    from collections.abc import Iterable

SCRIPT = Path(__file__).with_name("parse.mjs")
MAILS = int(os.environ.get("MAILS", "2000"))
SEED = int(os.environ.get("SEED", "20260301"))


def read_by_node(contents: Iterable[bytes]) -> list[tuple[Parts, list[str]]]:
    """What postal-mime finds in each mail, and the names of its headers."""
    lines = "".join(base64.b64encode(content).decode() + "\n" for content in contents)
    run = subprocess.run(
        ["node", str(SCRIPT)],
        input=lines,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2_000:]
    return [_found(json.loads(line)) for line in run.stdout.split("\n")[:-1]]


def _found(mail: dict[str, Any]) -> tuple[Parts, list[str]]:
    boxes = {field: tuple(map(tuple, mail[field])) for field in ("to", "cc", "reply_to")}
    files = tuple(
        (name, base64.b64decode(content), content_id) for name, content, content_id in mail["files"]
    )
    parts = Parts(
        sender=tuple(mail["sender"]),
        subject=mail["subject"],
        text=mail["text"],
        html=mail["html"],
        files=files,
        **boxes,
    )
    return parts, mail["headers"]


def level(parts: Parts) -> Parts:
    """Parts without what two readers may see differently: how a body ends, and how its lines do."""
    text, html = (
        body.replace("\r\n", "\n").rstrip("\n") + "\n" for body in (parts.text, parts.html)
    )
    return replace(parts, text=text, html=html)


def mismatches(mails: Iterable[tuple[Parts, Parts]]) -> list[str]:
    """The parts that either parser reads otherwise, with the number of their mail."""
    pairs = list(mails)
    contents = [hostile.composed(given, number=number) for number, (given, _) in enumerate(pairs)]
    second = read_by_node(contents)
    assert len(second) == len(pairs)
    found = []
    for number, (content, (_, wanted), by_node) in enumerate(
        zip(contents, pairs, second, strict=True)
    ):
        by_python = hostile.read(content)
        readings = {
            "python": hostile.differences(wanted, *by_python) + hostile.faults_of(content),
            "postal-mime": hostile.differences(level(wanted), level(by_node[0]), by_node[1]),
        }
        found += [
            f"no. {number}, {parser}: {fault[:600]}"
            for parser, faults in readings.items()
            for fault in faults
        ]
    return found


@pytest.mark.parametrize("seed", [SEED], ids=lambda seed: f"SEED={seed}")
def test_generated_mails_are_the_same_parts_to_both(seed: int) -> None:
    """MIM-01, MIM-03, MIM-08, MIM-10, ATT-01."""
    assert mismatches((mail, mail) for mail in hostile.made(seed, MAILS)) == [], f"SEED={seed}"


def test_every_pair_of_hostile_values_is_the_same_parts_to_both() -> None:
    """MIM-01, MIM-03, MIM-04, MIM-10, ATT-01, ATT-03: names, subjects, files, addresses, values."""
    rows = hostile.accepted_pairs()
    assert mismatches((row.given(), row.wanted()) for row in rows) == []


def test_what_is_refused_on_one_axis_is_refused_beside_every_value_of_another() -> None:
    """MIM-03, MIM-06, ATT-03: no value makes another one pass."""
    passed = []
    for refused in hostile.refused_pairs():
        try:
            hostile.composed(refused.given())
        except TemplateError as error:
            if error.code == "invalid_header":
                continue
        passed.append(refused)
    assert passed == []


def test_the_two_parsers_do_see_a_mail_that_came_out_wrong() -> None:
    """The comparison itself: a mail whose name fell apart is told by its number and its part."""
    content = hostile.composed(Choice(name="Ada, Eve").given())
    broken = content.replace(b'"Ada, Eve"', b"Ada, Eve")
    wanted = Choice(name="Ada, Eve").given()
    [(parts, headers)] = read_by_node([broken])
    assert any(fault.startswith("to:") for fault in hostile.differences(wanted, parts, headers))
    with pytest.raises((AssertionError, ValueError)):
        assert hostile.differences(wanted, *hostile.read(broken)) == []
