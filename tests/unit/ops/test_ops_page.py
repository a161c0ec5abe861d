"""docs/operations.md and the other pages: every command of theirs is one that `ops` takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ops import failing, timeline
from ops.shell import Shell
from tests.unit.ops.conftest import EVENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.ops.conftest import Result

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


def commands() -> list[str]:
    """What stands behind `ops` in blocks of code; of a command in a sentence, that it exists."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines = re.findall(r"^(?:\$ )?(.+)$", block, re.MULTILINE)
            parts = [part.strip() for line in lines for part in line.split(" | ")]
            found += [part[4:] for part in parts if part.startswith("ops ")]
        sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        found += [f"{named} --help" for named in re.findall(r"`ops ([^`]+)`", sentences)]
    return sorted(set(found))


def test_there_are_commands_on_the_page() -> None:
    assert len(commands()) > 15


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_pages_is_one_that_ops_takes(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    class ReachedError(Exception):
        """The command line was taken."""

    def reach(_: Shell) -> None:
        raise ReachedError

    monkeypatch.setattr(Shell, "api", reach)
    words = shlex.split(command, comments=True)
    if "--help" in words:
        assert run(*words).status == 0
        return
    stdin = "ada@example.com" if "unsuppress" in words else EVENT
    with pytest.raises(ReachedError):
        run(*words, stdin=stdin)


def test_every_exit_status_is_on_the_page() -> None:
    names = [name for name in vars(failing) if name.isupper()]
    documented = {int(found) for found in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert documented == {0, 130, *(vars(failing)[name] for name in names)}


def test_every_reason_has_its_sentence_as_in_the_architecture() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = architecture.partition("## Reasons")[2].partition("## Outcomes")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)) == timeline.REASONS
