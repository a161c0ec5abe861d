"""`stats` and `watch`: how much waits, how late it is, how it ended."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops import finding, gating, printing
from ops.failing import FORBIDDEN, UNAVAILABLE, OpsError
from ops.shell import Shell, pass_shell, with_json

if TYPE_CHECKING:
    from ops.client import Api

_NEWEST = 10


class _Interval(click.FloatRange):
    """Seconds; NaN is in no range, whatever it is compared with."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if found != found:  # noqa: PLR0124  what only NaN does
            self.fail("nan is no number of seconds", param, ctx)
        return found


_SECONDS = _Interval(min=0.2, max=86_400)


@click.command()
@with_json
@pass_shell
def stats(shell: Shell) -> None:
    """What waits now, how late it is, how the last day's messages ended, and the gate."""
    found = _read(shell.api())
    if shell.as_json:
        printing.document(found)
        return
    printing.lines(_board(found))


@click.command()
@click.option("--interval", type=_SECONDS, default=2.0, show_default=True)
@click.option("--count", type=click.IntRange(min=0), default=0, help="So many looks; 0: no end.")
@with_json
@pass_shell
def watch(shell: Shell, *, interval: float, count: int) -> None:
    """Look again and again, until Ctrl-C.

    On a terminal a table that stays in its place, with the newest messages; elsewhere a line for
    each look, or with --json a document in one line. A look that fails is told, and the next one is
    tried.
    """
    api = shell.api()
    is_live = not shell.as_json and _is_terminal()
    looked = 0
    try:
        while True:
            _look(api, as_json=shell.as_json, is_live=is_live)
            looked += 1
            if looked == count:
                return
            time.sleep(interval)
    except KeyboardInterrupt:
        return


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _look(api: Api, *, as_json: bool, is_live: bool) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        found = _read(api)
        newest = api.get("/v1/messages", limit=_NEWEST)["messages"] if is_live else []
    except OpsError as error:
        if error.status != UNAVAILABLE:
            raise
        printing.complain(error, as_json=as_json)
        return
    if as_json:
        click.echo(json.dumps({"at": at, **found}))
    elif is_live:
        click.clear()
        printing.lines([printing.moment(at), "", *_board(found), "", *finding.listed(newest)])
    else:
        click.echo(f"{printing.moment(at)} {_line(found)}")


def _read(api: Api) -> dict[str, Any]:
    """The counts, with the gates beside them; none for whoever may not look at those."""
    found: dict[str, Any] = api.get("/v1/stats")
    try:
        gates = api.get("/v1/gates")["gates"]
    except OpsError as error:
        if error.status != FORBIDDEN:
            raise
        gates = []
    return {**found, "gates": gates}


def _in_use(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [gate for gate in found["gates"] if gate["in_use"]]


def _board(found: dict[str, Any]) -> list[str]:
    classes = {"all": found, **found["classes"]}
    rows = [
        (
            name,
            one["pending"],
            one["sending"],
            one["unknown"],
            printing.span(one["oldest_due_seconds"]),
        )
        for name, one in classes.items()
    ]
    day = found["last_day"]
    reasons = ", ".join(f"{count} {name}" for name, count in sorted(day["reasons"].items()))
    gates = [line for gate in _in_use(found) for line in gating.described(gate)]
    return [
        *printing.table(("CLASS", "PENDING", "SENDING", "UNKNOWN", "OLDEST DUE"), rows),
        "",
        f"made in the last 24 h: {day['sent']} sent, {day['failed']} failed"
        + (f" ({printing.plain(reasons)})" if reasons else ""),
        *(["gate:", *(f"  {line}" for line in gates)] if gates else []),
    ]


def _line(found: dict[str, Any]) -> str:
    day = found["last_day"]
    gates = ",".join(f"{gate['provider']}:{gate['state']}" for gate in _in_use(found))
    return (
        f"pending={found['pending']} sending={found['sending']} unknown={found['unknown']}"
        f" oldest_due_seconds={found['oldest_due_seconds']:.1f} sent_24h={day['sent']}"
        f" failed_24h={day['failed']} gate={gates or '-'}"
    )
