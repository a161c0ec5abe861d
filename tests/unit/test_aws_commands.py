"""The commands of AWS's command line in the pages: every operation and every option exists.

Held against the services' models that botocore brings along; what the command line adds to them by
itself is named here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jmespath  # type: ignore[import-untyped]
import pytest
from botocore import xform_name
from botocore.session import Session

if TYPE_CHECKING:
    from botocore.model import OperationModel, ServiceModel

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Of the command line itself: every operation takes them.
GLOBAL = {
    "query",
    "output",
    "region",
    "profile",
    "no-paginate",
    "max-items",
    "cli-input-json",
    "cli-read-timeout",
    "cli-binary-format",
}
# Commands that the command line makes of several operations.
OF_ITS_OWN = {("s3", "cp"), ("s3", "rb"), ("cloudformation", "deploy")}

SERVICES = {"s3api": "s3"}
"""What the command line calls otherwise."""

_COMMAND = re.compile(r"\baws ([a-z][a-z0-9]+) ([a-z][a-z0-9-]+)\b")


@cache
def model(service: str) -> ServiceModel:
    """What botocore knows of a service."""
    return Session().get_service_model(service)


def operation(service: str, command: str) -> OperationModel | None:
    """The operation that a command of the command line calls."""
    known = model(SERVICES.get(service, service))
    found = [one for one in known.operation_names if xform_name(one, "-") == command]
    return known.operation_model(found[0]) if found else None


def snippets(text: str, *, whole: bool = False) -> list[str]:
    """Code of a page that calls the command line, what is substituted into it apart.

    whole: only what stands in blocks, to be run as it is.
    """
    text = re.sub(r"\\\n\s*", " ", text)
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for code in blocks if whole else [*blocks, *re.findall(r"`([^`]+)`", sentences)]:
        left = re.sub(r"'[^']*'", "''", code)
        while inner := re.search(r"\$\(([^()]*)\)", left):
            found.append(inner[1])
            left = left[: inner.start()] + "substituted" + left[inner.end() :]
        found += re.split(r"\n(?!\s+--)|[|;]|&&|#", re.sub(r'"[^"]*"', '""', left))
    return [one for one in found if _COMMAND.search(one)]


def commands() -> dict[str, set[str]]:
    """Service and operation of each call, with the options that it is given anywhere."""
    named: dict[str, set[str]] = {}
    for page in PAGES:
        for snippet in snippets(page.read_text("utf-8")):
            call = _COMMAND.search(snippet)
            assert call
            options = set(re.findall(r"(?<=\s)--([a-z][a-z0-9-]*)", snippet))
            named.setdefault(f"{call[1]} {call[2]}", set()).update(options)
    return named


NAMED = commands()


def test_the_pages_call_aws_in_many_ways() -> None:
    assert len(NAMED) > 30
    assert NAMED["sqs start-message-move-task"] == {"source-arn"}
    assert {"reserved-concurrent-executions", "function-name"} <= NAMED[
        "lambda put-function-concurrency"
    ]


@pytest.mark.parametrize("named", sorted(NAMED))
def test_every_call_of_aws_names_an_operation_and_options_that_there_are(named: str) -> None:
    service, command = named.split()
    if (service, command) in OF_ITS_OWN:
        return
    found = operation(service, command)
    assert found is not None, named
    members = {} if found.input_shape is None else found.input_shape.members
    known = {xform_name(member, "-") for member in members}
    negated = {f"no-{name}" for name in known}
    assert NAMED[named] <= known | negated | GLOBAL


OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")


@pytest.mark.parametrize("snippet", snippets(OPERATIONS, whole=True))
def test_every_call_in_a_block_of_the_runbook_gives_what_its_operation_must_have(
    snippet: str,
) -> None:
    call = _COMMAND.search(snippet)
    assert call
    found = operation(call[1], call[2])
    assert found
    given = set(re.findall(r"(?<=\s)--([a-z][a-z0-9-]*)", snippet))
    needed = found.input_shape.required_members if found.input_shape else []
    assert "cli-input-json" in given or {xform_name(one, "-") for one in needed} <= given


def queries() -> list[str]:
    """What the pages ask of answers."""
    texts = [page.read_text("utf-8") for page in PAGES]
    return [
        (single or double).replace("$1", "a")
        for text in texts
        for single, double in re.findall(r"--query (?:'([^']*)'|\"([^\"]*)\")", text)
    ]


@pytest.mark.parametrize("query", queries())
def test_every_query_of_an_answer_can_be_read(query: str) -> None:
    assert jmespath.compile(query)


def test_the_ids_of_the_logs_come_out_one_a_line() -> None:
    """As the command line prints a list of lists; who waits for a restore reads lines."""
    [query] = [one for one in queries() if "message_id" in one]
    answer = {
        "results": [
            [{"field": "message_id", "value": name}, {"field": "count(*)", "value": "2"}]
            for name in ("a", "b")
        ]
    }
    assert jmespath.search(query, answer) == [["a"], ["b"]]


def test_what_a_schedule_tells_of_itself_can_be_given_back_to_it() -> None:
    """Switched on again as the page does: all that is told, without three moments and names."""
    [dropped] = re.findall(r"jq 'del\(([^)]+)\) \| \.State = \"ENABLED\"'", OPERATIONS)
    told, taken = operation("scheduler", "get-schedule"), operation("scheduler", "update-schedule")
    assert told
    assert told.output_shape
    assert taken
    assert taken.input_shape
    left = set(told.output_shape.members) - set(re.findall(r"\w+", dropped))
    assert set(taken.input_shape.required_members) <= left <= set(taken.input_shape.members)
