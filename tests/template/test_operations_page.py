"""`docs/operations.md` has a row for every alarm and every metric, and its commands are real."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, cast

import click
import pytest

from ops.cli import cli
from postlease import gate, outbox
from postlease.backoff import STEPS
from postlease.model import Settlement
from tests import arrange
from tests.metrics import EMITTED, NAMES
from tests.template.deployment import ROOT, Deployment, deployment, source

if TYPE_CHECKING:
    from postlease.database import Connection

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Alarms\n")[2].partition("\n## ")[0]
ALARMS, QUERIES, METRICS = (
    SECTION.partition("\n### ")[0],
    SECTION.partition("### First queries\n")[2].partition("\n### ")[0],
    PAGE.partition("### Metrics\n")[2].partition("\n### ")[0],
)


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def test_every_alarm_has_a_row_with_its_meaning_a_first_query_and_a_remedy(
    deployed: Deployment,
) -> None:
    alarms = deployed.of_type("AWS::CloudWatch::Alarm")
    found = rows(ALARMS)
    assert sorted(cells[0].strip("`") for cells in found) == sorted(alarms)
    assert all(len(cells) == 4 and all(cells) for cells in found)
    assert f"The stack has {len(alarms)}." in ALARMS


def test_the_metrics_of_the_page_are_those_that_are_emitted_by_whom_it_says() -> None:
    named: dict[str, set[str]] = {}
    for metrics, _, functions in rows(METRICS):
        for name in re.findall(r"`(\w+)`", metrics):
            named[name] = set(re.findall(r"[a-z]+", functions.replace("each its own", "")))
    assert named.keys() == NAMES
    for name, told in named.items():
        emitting = {function for function, units in EMITTED.items() if name in units}
        assert emitting <= told or not told, name


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`ops ([^`]+)`", ALARMS))))
def test_every_command_of_the_page_is_one_that_ops_has(command: str) -> None:
    group: click.Command = cli
    words = shlex.split(command)
    while isinstance(group, click.Group):
        group = cast("click.Command", group.get_command(click.Context(group), words.pop(0)))
        assert group is not None, command
    if group.name in {"show", "cancel", "resolve"} and "EVENT_ID" not in words:
        words.append("evt_01M8NTQV04EGWRZR5KD2V4E295")
    group.make_context(group.name, words)


def test_no_command_of_the_page_has_a_comment_which_zsh_would_take_for_words() -> None:
    """Pasted into zsh, `sleep 600  # why` does not wait at all."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert [line for line in "".join(blocks).splitlines() if re.search(r"(^|\s)#", line)] == []


@pytest.fixture
def trouble(owner: Connection, application: Connection) -> Connection:
    """A message that waits, one whose outcome is unknown, one that was refused; a paused gate."""
    arrange.enqueue(owner, 3)
    refused, unknown = arrange.dispatch(application, 2)
    settlement = Settlement(
        refused.claim, "failed", "rejected", code="content", failure_reason="rejected"
    )
    outbox.record(application, [settlement])
    arrange.end_lease(owner, unknown.claim.message_id)
    gate.pause(owner, "ses", by="somebody", because="a test")
    return owner


@pytest.mark.parametrize("number", range(4))
def test_every_query_of_the_page_shows_the_trouble_and_no_address(
    trouble: Connection, number: int
) -> None:
    queries = re.findall(r"^Q(\d), .*?```sql\n(.*?)```", QUERIES, re.DOTALL | re.MULTILINE)
    assert [first for first, _ in queries] == ["1", "2", "3", "4"]
    found = trouble.execute(queries[number][1].encode()).fetchall()
    assert found
    assert not any("@" in str(value) for row in found for value in row.values())


def test_every_part_of_the_stack_that_the_page_names_is_there(deployed: Deployment) -> None:
    found = set(re.findall(r"\(output (\w+)\)|\(output `(\w+)`\)", PAGE))
    outputs = {name for pair in found for name in pair if name}
    assert {"ApiUrl", "DeadLettersUrl", "TokenKeysSecretArn"} <= outputs
    assert outputs <= deployed.source["Outputs"].keys()
    named = set(re.findall(r"(?:physical|invoke) \"?([A-Z]\w+)", PAGE))
    for loop in re.findall(r"for one in ([A-Za-z ]+); do", PAGE):
        named |= set(loop.split())
    assert {"SweepFunction", "DoorbellSource", "MigrateFunction"} <= named
    assert named <= deployed.resources.keys()


def test_a_restore_stops_all_that_sends_settles_or_removes(deployed: Deployment) -> None:
    """And starts it again."""
    restoring = PAGE.partition("\n## Restoring the database\n")[2].partition("\n## ")[0]
    loops = re.findall(r"for one in ([A-Za-z ]+); do", restoring)
    sources = set(deployed.of_type("AWS::Lambda::EventSourceMapping"))
    # Feedback is stopped by its source, so that its events wait; migrate is wanted.
    stopped = set(deployed.functions()) - {"FeedbackFunction", "MigrateFunction"} | sources
    assert {name for loop in loops[:2] for name in loop.split()} == stopped
    started = {name for loop in loops[2:] for name in loop.split()}
    started |= set(re.findall(r'physical (\w+)\)" --enabled', restoring))
    assert started == stopped


def test_the_page_s_figures_of_the_stack_are_the_template_s(deployed: Deployment) -> None:
    def value(name: str, member: str) -> object:
        return deployed.resources[name]["Properties"][member]

    text = " ".join(PAGE.split())
    day = 86_400
    letters = ("DeadLetters", "FeedbackDeadLetters")
    assert {value(one, "MessageRetentionPeriod") for one in letters} == {14 * day}
    assert "wait for fourteen days" in text
    assert value("FeedbackQueue", "MessageRetentionPeriod") == 4 * day
    assert "wait in their queue for four days" in text
    assert f"takes up to {value('SweepFunction', 'Timeout')} seconds" in text
    assert f"its own next try, at most {STEPS[0].total_seconds() * 1.5:.0f} seconds" in text
    reserved = {
        name: deployed.functions()[f"{name.title()}Function"]["ReservedConcurrentExecutions"]
        for name in ("sweep", "reaper", "retention")
    }
    told = ", ".join(f"{name} {one['Fn::If'][1]}" for name, one in reserved.items())
    assert f"reserved concurrency again instead: {told}." in text
    [total] = re.findall(r"That is (\d+), with", (ROOT / "docs" / "deploy.md").read_text("utf-8"))
    assert f"with the defaults at most {total}," in text
    assert f"| up to {total}, most `idle` |" in text
