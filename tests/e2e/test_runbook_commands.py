"""docs/operations.md: the commands of `ops` in its blocks do something, and print what it shows."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ops import cli
from postlease import outbox
from postlease.model import Settlement, event_id
from tests import arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.stack import Stack
    from postlease.database import Connection

    Ops = Callable[..., str]

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|console)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EVENT = re.compile(r"evt_[0-9A-Z]{26}")


def commands() -> list[str]:
    """What is typed after `ops`, each once."""
    found = []
    for _, block in BLOCKS:
        for line in re.findall(r"^(?:\$ )?(.+)$", block, re.MULTILINE):
            parts = [part.strip() for part in line.partition("#")[0].split(" | ")]
            found += [part[4:] for part in parts if part.startswith("ops ")]
    return sorted({one for one in found if "--help" not in one})


@pytest.fixture
def ids(swept_by_hand: Stack, emptied: Connection) -> dict[str, list[str]]:
    """A mail that was sent, three that were refused, one without an answer, two that wait."""
    sent, *refused, unknown = arrange.enqueue(emptied, 5)
    claimed = arrange.dispatch(emptied, 5)
    by_id = {one.claim.message_id: one.claim for one in claimed}
    settled = [
        Settlement(by_id[one], "failed", "rejected", code="content", failure_reason="rejected")
        for one in refused
    ]
    outbox.record(emptied, [arrange.sent(by_id[sent]), *settled])
    arrange.end_lease(emptied, unknown)
    assert swept_by_hand.url
    return {
        "show": [event_id(unknown)],
        "resolve": [event_id(unknown)],
        "retry": [event_id(one) for one in refused],
        "sent": [event_id(sent)],
    }


@pytest.fixture
def ops(
    swept_by_hand: Stack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ops:
    """Runs a command line with these words on standard input; what it printed."""

    def run(command: str, typed: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        words = shlex.split(command)
        can_ask = words[0] in {"retry", "cancel", "resolve", "gate"} and "show" not in words
        yes = ["--yes"] if can_ask and "--yes" not in words and "--dry-run" not in words else []
        status = cli.run(("--local", "--endpoint", swept_by_hand.url, *words, *yes))
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    return run


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_runbook_does_what_it_says_at_a_real_api(
    ops: Ops, emptied: Connection, ids: dict[str, list[str]], command: str
) -> None:
    verb = command.partition(" ")[0]
    waiting = [event_id(one) for one in arrange.enqueue(emptied, 2)]
    meant = iter([*ids.get(verb, []), *waiting] if verb != "cancel" else waiting)
    typed = ids.get(verb, waiting)[0]
    if verb == "unsuppress":
        ops("suppress ada@example.com --until 1h")
        typed = "ada@example.com"
        command = command.replace(" --reason bounce", " --reason manual")
    ops(EVENT.sub(lambda _: next(meant), command), typed)


def test_health_is_shown_as_the_page_shows_it(
    ops: Ops, swept_by_hand: Stack, emptied: Connection, ids: dict[str, list[str]]
) -> None:
    assert ids
    emptied.execute("INSERT INTO postlease.provider_gates (provider) VALUES ('ses')")
    [shown] = [block for _, block in BLOCKS if block.startswith("$ ops stats\n")]
    assert f"$ ops stats\n{ops('stats')}" == shown
    assert swept_by_hand.url


def masked(text: str) -> str:
    """Without what differs each time: ids, owners, times."""
    text = EVENT.sub("EVENT", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    return re.sub(r"claimed by \S+,", "claimed by WORKER,", text)


def test_a_message_s_life_is_shown_as_the_page_shows_it(
    ops: Ops, ids: dict[str, list[str]]
) -> None:
    [shown] = [block for _, block in BLOCKS if block.startswith("$ ops show ")]
    [unknown] = ids["show"]
    assert masked(f"$ ops show {unknown}\n{ops(f'show {unknown}')}") == masked(shown)


def test_a_pause_and_its_end_are_shown_as_the_page_shows_them(
    ops: Ops, emptied: Connection
) -> None:
    assert emptied
    [shown] = [block for _, block in BLOCKS if block.startswith("$ ops gate pause ")]
    said = ""
    for command in re.findall(r"^\$ ops (.+)$", shown, re.MULTILINE):
        said += f"$ ops {command}\n{ops(command)}"
    assert masked(said) == masked(shown)
