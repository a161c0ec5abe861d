"""What is typed: ids, moments, addresses; and whether it is meant."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ops.failing import UNCONFIRMED, OpsError

_ID = re.compile(
    r"evt_[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
)
_SPAN = re.compile(r"(\d{1,6})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


if TYPE_CHECKING:
    from collections.abc import Callable

    _Text = click.ParamType[str]
else:
    _Text = click.ParamType


class MessageId(_Text):
    """An event id or a message's UUID."""

    name = "event_id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id as it was typed."""
        if value != "-" and not _ID.fullmatch(value):
            self.fail(
                f"{value!r} is no id: it must be `evt_` and 26 characters, or a UUID", param, ctx
            )
        return value


class Moment(_Text):
    """A moment: RFC 3339 with its offset, or how long ago, as in `90s`, `30m`, `6h`, `2d`."""

    name = "moment"

    def __init__(self, *, ahead: bool = False) -> None:
        """ahead: a duration is counted from now on, not back."""
        self._ahead = ahead

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment as the API reads it."""
        found = _SPAN.fullmatch(value)
        try:
            if found:
                away = timedelta(**{_UNITS[found[2]]: int(found[1])})
                stated = datetime.now(UTC) + (away if self._ahead else -away)
            else:
                stated = datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            stated = datetime.min  # noqa: DTZ901  refused below, as any without an offset
        if stated.tzinfo is None:
            self.fail(
                f"{value!r} is neither a time with its offset (2026-03-12T09:30:00Z) nor a duration"
                " (90s, 30m, 6h, 2d)",
                param,
                ctx,
            )
        return stated.isoformat()


class Reason(_Text):
    """Why a gate is moved: one line without an address."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The reason without blanks around it."""
        said = value.strip()
        if not 1 <= len(said) <= 200 or "@" in said or not said.isprintable():
            self.fail("it must be one line of 1 to 200 characters without an @", param, ctx)
        return said


MESSAGE_ID, AGO, AHEAD, REASON = MessageId(), Moment(), Moment(ahead=True), Reason()


def ids(typed: tuple[str, ...]) -> list[str]:
    """The ids, each once; `-` reads more from standard input, one a line."""
    found: list[str] = []
    for one in typed:
        if one != "-":
            found.append(one)
            continue
        for line in _piped(sys.stdin.read).split():
            if line == "-" or not _ID.fullmatch(line):
                raise click.UsageError(f"{line!r} on standard input is no event id")
            found.append(line)
    return list(dict.fromkeys(found))


def address(typed: str) -> str:
    """The address; `-` reads it from standard input, so that no shell's history keeps it."""
    text = _piped(sys.stdin.readline) if typed == "-" else typed
    if "@" not in text:
        raise click.UsageError("that is no address: it has no @")
    return text.strip()


def _piped(read: Callable[[], str]) -> str:
    try:
        # Bytes that are none may have come through as halves of characters.
        return read().encode().decode()
    except UnicodeError:
        raise click.UsageError("what is on standard input is no text") from None


def is_somebody_there() -> bool:
    """Whether a question can be answered."""
    return sys.stdin.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Nothing if it is meant; OpsError(6) if not, or if nobody can be asked."""
    if yes:
        return
    if not is_somebody_there():
        raise OpsError(f"{question} Nobody is there to ask: say --yes", UNCONFIRMED)
    try:
        is_meant = click.confirm(question, default=False, err=True)
    except click.Abort:
        is_meant = False
    if not is_meant:
        raise OpsError("nothing was changed", UNCONFIRMED)
