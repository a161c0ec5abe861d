"""`gate`: whether mail may leave; stop all of it, let it go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ops import asking, printing
from ops.failing import UNKNOWN, OpsError
from ops.shell import Shell, pass_shell, with_json, with_yes

if TYPE_CHECKING:
    from ops.client import Api

_PROVIDER = click.argument("provider", required=False)
_REASON = click.option(
    "--reason", required=True, type=asking.REASON, help="Why, for whoever looks next; no address."
)


@click.group()
def gate() -> None:
    """Whether mail may leave: show, pause, open.

    Without a provider the one in use is meant.
    """


@gate.command()
@_PROVIDER
@with_json
@pass_shell
def show(shell: Shell, provider: str | None) -> None:
    """What each provider's gate is like, why, and who said so last."""
    gates = shell.api().get("/v1/gates")["gates"]
    if provider is not None:
        gates = [_named(gates, provider)]
    if shell.as_json:
        printing.document({"gates": gates})
        return
    for one in gates:
        printing.lines(described(one))


@gate.command()
@_PROVIDER
@_REASON
@with_yes
@with_json
@pass_shell
def pause(shell: Shell, provider: str | None, *, reason: str, yes: bool) -> None:
    """Let no mail leave until somebody opens the gate; no probe does."""
    api = shell.api()
    meant = _meant(api, provider)
    asking.confirm(f"Let no mail leave by {meant} until somebody opens its gate?", yes=yes)
    _rule(shell, api, meant, "paused", reason)


@gate.command("open")
@_PROVIDER
@_REASON
@with_yes
@with_json
@pass_shell
def open_(shell: Shell, provider: str | None, *, reason: str, yes: bool) -> None:
    """Let mail leave at once, whatever closed the gate."""
    api = shell.api()
    meant = _meant(api, provider)
    asking.confirm(f"Let all that waits leave by {meant} now?", yes=yes)
    _rule(shell, api, meant, "open", reason)


def described(found: dict[str, Any]) -> list[str]:
    """A gate as lines."""
    use = "in use" if found["in_use"] else "not in use"
    lines = [f"{found['provider']}  {found['state']}  ({use})"]
    if found["state"] != "open":
        by = f", by the answer to {found['closed_by']}" if found["closed_by"] else ""
        lines.append(f"  since {printing.moment(found['closed_at'])}: {found['reason']}{by}")
    if found["next_probe_at"]:
        lines.append(f"  next probe at {printing.moment(found['next_probe_at'])} or later")
    if found["failures_in_a_row"]:
        lines.append(f"  {found['failures_in_a_row']} calls in a row reached nobody")
    if found["rate_per_second"] is not None:
        rate, limit = found["rate_per_second"], found["limit_per_second"]
        lines.append(f"  {rate:g} recipients a second, of {limit:g} that are allowed")
    if found["accepted_at"]:
        lines.append(f"  a mail was accepted at {printing.moment(found['accepted_at'])} or later")
    if found["ruled_at"]:
        word = "paused" if found["state"] == "paused" else "opened"
        lines.append(
            f"  {word} at {printing.moment(found['ruled_at'])} by {found['ruled_by']}:"
            f" {found['ruled_because']}"
        )
    return [printing.plain(line) for line in lines]


def _meant(api: Api, provider: str | None) -> str:
    gates = api.get("/v1/gates")["gates"]
    if provider is not None:
        return str(_named(gates, provider)["provider"])
    return next(str(one["provider"]) for one in gates if one["in_use"])


def _named(gates: list[dict[str, Any]], provider: str) -> dict[str, Any]:
    for one in gates:
        if one["provider"] == provider:
            return one
    names = ", ".join(one["provider"] for one in gates)
    raise OpsError(f"there is no gate of {provider!r}, but of {names}", UNKNOWN)


def _rule(shell: Shell, api: Api, provider: str, state: str, reason: str) -> None:
    found = api.put(f"/v1/gates/{provider}", {"state": state, "reason": reason})
    if shell.as_json:
        printing.document(found)
        return
    printing.lines(described(found))
