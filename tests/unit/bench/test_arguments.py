"""What a measuring command cannot measure is refused by name, before anything starts."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import bench
from bench.measuring import arguments
from local.binaries import PostgresError

COMMANDS = ("doorbell", "oracle", "attachments", "storage", "retention")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("attachments", "--messages=0"),
        ("attachments", "--megabytes=0"),
        ("attachments", "--megabytes=28.6"),
        ("attachments", "--megabytes=nan"),
        ("storage", "--messages=0"),
        ("oracle", "--requests=0"),
        ("oracle", "--requests=many"),
        ("retention", "--messages=0"),
        ("retention", "--kills=-1"),
        ("doorbell", "--mails=3"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(
    command: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"bench.{command}").main([line])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert line.partition("=")[0] in told
    assert f"python -m bench.{command}" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_is_measured_and_what_each_number_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"bench.{command}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert (module.__doc__ or "-").splitlines()[0] in told
    options = re.findall(r"^  --(\w+)[^\n]*?(?:  +|\n +)(\w.*)$", told, re.MULTILINE)
    assert {name for name, _ in options} == set(re.findall(r"^  --(\w+)", told, re.MULTILINE))


def test_every_command_is_held_to_it() -> None:
    """But for the bench itself and its plan, which have tests, and the report on what is built."""
    modules = {one.name for one in pkgutil.iter_modules(bench.__path__) if not one.ispkg}
    assert modules - {"__main__", "asking", "artefact"} == set(COMMANDS)


def test_bounds_are_part_of_the_range() -> None:
    assert arguments.whole(1)("1") == 1
    assert arguments.whole(1, 3)("3") == 3
    assert arguments.decimal(0.5, 28.5)("28.5") == pytest.approx(28.5)


def test_a_command_without_a_server_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> int:
        raise PostgresError("there is none")

    assert arguments.status("bench.storage", fails) == 1
    assert capsys.readouterr().err == "bench.storage: there is none\n"
    assert arguments.status("bench.storage", lambda: 0) == 0
