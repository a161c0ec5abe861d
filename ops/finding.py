"""`list` and `show`: which messages there are, and what happened to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ops import asking, paging, printing, timeline
from ops.failing import FORBIDDEN, OpsError
from ops.shell import Shell, pass_shell, with_json

if TYPE_CHECKING:
    from ops.client import Api

STATUSES = ("pending", "sending", "sent", "failed")


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES))
@click.option("--reason", type=click.Choice(sorted(timeline.REASONS)), help="Why it failed.")
@click.option("--template", metavar="NAME")
@click.option("--unknown", is_flag=True, help="Only those whose outcome is unknown now.")
@click.option("--since", type=asking.AGO, help="Made then or later: 30m, 2d, or a time.")
@click.option("--until", type=asking.AGO, help="Made earlier.")
@click.option("--limit", type=click.IntRange(min=0), default=20, help="0: all.", show_default=True)
@click.option("--ids", is_flag=True, help="Print the event ids alone, one a line: for `-`.")
@with_json
@pass_shell
def list_messages(  # noqa: PLR0913  each option is one
    shell: Shell,
    *,
    status: str | None,
    reason: str | None,
    template: str | None,
    unknown: bool,
    since: str | None,
    until: str | None,
    limit: int,
    ids: bool,
) -> None:
    """Messages, newest first."""
    if ids and shell.as_json:
        raise click.UsageError("--ids and --json are two forms: take one of them")
    query = {
        "status": status,
        "reason": reason,
        "template": template,
        "unknown": "true" if unknown else None,
        "created_after": since,
        "created_before": until,
    }
    found, more = paging.first(shell.api(), "/v1/messages", "messages", query, limit)
    if shell.as_json:
        printing.document({"messages": found, "more": more})
        return
    printing.lines([one["event_id"] for one in found] if ids else listed(found))
    if more:
        click.echo(f"There are more than these {limit}: --limit 0 shows all.", err=True)
    if not found:
        click.echo("No message is like that.", err=True)


def listed(messages: list[dict[str, Any]]) -> list[str]:
    """Messages as a table."""
    rows = [
        (
            one["event_id"],
            timeline.state(one),
            one["template"],
            ", ".join(one["to"][:1])
            + (" …" if len(one["to"] + one["cc"] + one["bcc"]) > 1 else ""),
            one["attempt_count"],
            printing.moment(one["created_at"]),
            printing.moment(one["finished_at"]),
        )
        for one in messages
    ]
    heads = ("EVENT", "STATE", "TEMPLATE", "TO", "TRIES", "MADE", "ENDED")
    return printing.table(heads, rows)


@click.command()
@click.argument("event_id", type=asking.MESSAGE_ID)
@with_json
@pass_shell
def show(shell: Shell, event_id: str) -> None:
    """The whole life of one message: every attempt's class, owner, lease and provider's id."""
    api = shell.api()
    [wanted] = asking.ids((event_id,))
    message = api.get(f"/v1/messages/{wanted}")
    if shell.as_json:
        printing.document(message)
        return
    gate = _gate(api) if message["status"] == "pending" else None
    printing.lines(timeline.life(message, gate))


def _gate(api: Api) -> dict[str, Any] | None:
    """The gate of the provider in use; None for whoever may not look."""
    try:
        gates = api.get("/v1/gates")["gates"]
    except OpsError as error:
        if error.status != FORBIDDEN:
            raise
        return None
    return next((one for one in gates if one["in_use"]), None)
