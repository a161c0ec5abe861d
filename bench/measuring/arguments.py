"""A command's line: what it takes is told, and what cannot be measured is refused, in words."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TypeVar

from local.binaries import PostgresError

if TYPE_CHECKING:
    from collections.abc import Callable

_Number = TypeVar("_Number", int, float)


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """For `python -m name`; about is told as it stands, line by line."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def count(to: argparse.ArgumentParser, name: str, usual: int, told: str, *, least: int = 1) -> None:
    """Let the command take `--name N`, a whole number; help tells what it is without it."""
    to.add_argument(
        f"--{name}", type=whole(least), default=usual, metavar="N", help=f"{told} (%(default)s)"
    )


def status(name: str, main: Callable[[], int]) -> int:
    """What main says; 1, and the reason in one line, if there is no server or somebody ends it."""
    try:
        return main()
    except PostgresError as error:
        reason = str(error)
    except KeyboardInterrupt:
        reason = "interrupted"
    print(f"{name}: {reason}", file=sys.stderr)
    return 1


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for argparse: a whole number from least to most, both included."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        return _bounded(number, least, most)

    return read


def decimal(least: float, most: float) -> Callable[[str], float]:
    """A type for argparse: a number from least to most, both included."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
        return _bounded(number, least, most)

    return read


def _bounded(number: _Number, least: _Number, most: _Number | None) -> _Number:
    if most is None and not number >= least:
        raise argparse.ArgumentTypeError(f"wants {least} or more")
    if most is not None and not least <= number <= most:
        raise argparse.ArgumentTypeError(f"wants {least} to {most}")
    return number
