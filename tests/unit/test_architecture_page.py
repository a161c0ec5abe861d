"""The pages that describe the design name only what exists, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from postlease.model import FailureReason
from tests.releases.collecting import name_of, statements

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layers" / "postlease" / "python" / "postlease"
DECISIONS = ROOT / "docs" / "decisions"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")

OPERATIONAL = (
    "Two workers cannot claim the same pending row.",
    "A crashed worker's lease expires without an operator action.",
    "A late provider response cannot overwrite a newer attempt.",
    "The same signup idempotency key creates one verification event.",
    "Token expiry is checked independently from delivery retries.",
    "Metrics expose queued, sending, sent, failed, and expired counts.",
    "Logs include the event ID, but not the token or full email address.",
)
THIRTEENTH = (
    "The producer does not wait: an email request is one INSERT, sending is async",
    "The email record is born in the same transaction as the triggering domain work",
    "Recipients (to/cc/bcc) are snapshotted at enqueue time",
    "Attachments are held as references in the row, not as blobs",
    "An atomic claim before sending — PENDING → SENDING, a conditional UPDATE",
    "A reaper for jobs stuck in SENDING, plus a client timeout on the provider call",
    (
        "A deliberate decision about the “sent it but could not record it” window: accept"
        " at-least-once, and use the provider’s idempotency token if it has one"  # noqa: RUF001
    ),
    "Retry: max attempts plus backoff/jitter; straight to FAILED on 4xx",
    "The template is rendered at send time; a render error is a permanent error",
    "The poll-vs-broker decision was made based on the profile — one application → DB poll",
    (
        "There is a retention scheduler: old SENT/FAILED records and their attachment files are"
        " cleaned in chunks"
    ),
    "Basic metrics: the age of the oldest PENDING, the FAILED rate, the send duration",
)
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if "::test_" in line and (cells := [cell.strip() for cell in line.strip("| ").split(" | ")])
}


def names(package: str = "") -> set[str]:
    """The names of the statements of a package of ours, or of all."""
    found = {text for where, text in statements().items() if where.startswith(package)}
    return {name for text in found if (name := name_of(text))}


def test_each_row_of_the_checklists_is_there_and_no_other() -> None:
    assert tuple(ROWS) == OPERATIONAL + THIRTEENTH


@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_tests_and_code_that_exist(row: str) -> None:
    tests, code = (re.findall(r"`([^`]+)`", cell) for cell in ROWS[row])
    assert tests
    assert code
    for path, _, name in (test.partition("::") for test in tests):
        assert f"\ndef {name}(" in (ROOT / path).read_text("utf-8"), f"{path} has no {name}"
    for path in code:
        assert (ROOT / path).is_file(), path


def test_every_room_of_the_package_is_on_the_page() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    section = PAGE.partition("## Rooms")[2].partition("\n## ")[0]
    described = set(re.findall(r"^\|[ 0-9]*\| `(\w+)` \|", section, re.MULTILINE))
    assert described == rooms - {"__init__"}


def test_every_statement_of_the_outbox_is_on_the_page() -> None:
    missing = {name for name in names("outbox.") if f"`{name}`" not in PAGE}
    assert not missing


def test_every_statement_on_the_page_is_in_the_code() -> None:
    rooms = {name.partition(".")[0] for name in names()}
    named = set(re.findall(rf"`((?:{'|'.join(sorted(rooms))})\.\w+)`", PAGE))
    assert named
    assert named <= names()


def test_every_reason_of_a_failed_message_has_its_sentence() -> None:
    section = PAGE.partition("## Reasons")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| [A-Z].+\. \|$", section, re.MULTILINE)
    assert described == list(get_args(FailureReason))


def test_every_section_of_the_third_document_is_mapped() -> None:
    mapping = PAGE.partition("section by section")[2]
    assert re.findall(r"^\| (\d+)\. ", mapping, re.MULTILINE) == [str(n) for n in range(1, 14)]


def test_poll_or_broker_was_decided() -> None:
    record = (DECISIONS / "0001-poll-first-broker-beside-it.md").read_text("utf-8")
    status = record.partition("## Status\n\n")[2].partition("\n")[0]
    assert status == "Accepted."
    assert "Model A, the poll" in record.partition("## Decision")[2]


@pytest.mark.parametrize("path", sorted(DECISIONS.glob("0*.md")), ids=lambda path: path.stem)
def test_a_decision_has_its_four_parts_and_its_place_in_the_index(path: Path) -> None:
    text = path.read_text("utf-8")
    first = re.match(r"# (\d{4})\. (.+)\n", text)
    assert first
    number, title = first.groups()
    assert path.name.startswith(f"{number}-")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Status", "Context", "Decision", "Consequences"]
    assert f"- [{number}]({path.name}) {title}\n" in (DECISIONS / "README.md").read_text("utf-8")


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in DECISIONS.glob("0*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
