"""`suppress`, `unsuppress`, `suppressions`: whom no mail is sent to.

No address is printed or put into a URL. The list holds digests, from which nobody reads whom it is
about: who asks by an address learns of that one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ops import asking, paging, printing
from ops.failing import UNKNOWN, OpsError
from ops.shell import Shell, pass_shell, with_json

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGEST = re.compile(r"[0-9a-f]{64}")
_REASONS = click.Choice(["bounce", "complaint", "manual"])


@click.command()
@click.argument("address")
@click.option("--until", type=asking.AHEAD, help="Only so long: 12h, 30d, or a time.")
@with_json
@pass_shell
def suppress(shell: Shell, address: str, *, until: str | None) -> None:
    """Send no mail to ADDRESS from now on. `-` reads it from standard input."""
    body = {"email": asking.address(address), "expires_at": until}
    entry = shell.api().put("/v1/suppressions", body)
    if shell.as_json:
        printing.document(entry)
        return
    end = (
        f"until {printing.moment(entry['expires_at'])}" if entry["expires_at"] else "without an end"
    )
    printing.lines([f"Suppressed {end}, as {entry['id']}."])


@click.command()
@click.argument("address")
@click.option("--reason", type=_REASONS, help="Only so.")
@with_json
@pass_shell
def unsuppress(shell: Shell, address: str, *, reason: str | None) -> None:
    """Let mail go to ADDRESS (or an entry's id) again. `-` reads it from standard input."""
    api = shell.api()
    if _DIGEST.fullmatch(address):
        found, reasons = address, [reason] if reason else []
    else:
        answer = api.post("/v1/suppressions/lookup", {"email": asking.address(address)})
        found = answer["id"]
        reasons = [
            one["reason"]
            for one in answer["suppressions"]
            if reason is None or one["reason"] == reason
        ]
        if not reasons:
            raise OpsError("no such entry is on the list", UNKNOWN, problem="suppression-unknown")
    api.delete(f"/v1/suppressions/{found}", reason=reason)
    if shell.as_json:
        printing.document({"id": found, "reasons": reasons})
        return
    printing.lines([f"Off the list: {', '.join(reasons) or 'all reasons'}, as {found}."])


@click.command()
@click.argument("address", required=False)
@click.option("--reason", type=_REASONS, help="Only those.")
@click.option("--limit", type=click.IntRange(min=0), default=20, help="0: all.", show_default=True)
@with_json
@pass_shell
def suppressions(shell: Shell, address: str | None, *, reason: str | None, limit: int) -> None:
    """What the list holds: ADDRESS's entries (`-` reads it), or all, by ids that tell nobody."""
    if address is None:
        query = {"reason": reason}
        found, more = paging.first(shell.api(), "/v1/suppressions", "suppressions", query, limit)
        if shell.as_json:
            printing.document({"suppressions": found, "more": more})
            return
        printing.lines(_listed(found))
        if more:
            click.echo(f"There are more than these {limit}: --limit 0 shows all.", err=True)
        return
    body = {"email": asking.address(address)}
    answer = shell.api().post("/v1/suppressions/lookup", body)
    found = [one for one in answer["suppressions"] if reason in {None, one["reason"]}]
    if shell.as_json:
        printing.document({"id": answer["id"], "suppressions": found})
    elif found:
        printing.lines(_listed(found))
    else:
        printing.lines([f"Not on the list, as {answer['id']}."])


def _listed(entries: Iterable[dict[str, Any]]) -> list[str]:
    rows = [
        (
            one["id"],
            one["reason"],
            printing.moment(one["created_at"]),
            printing.moment(one["expires_at"]),
        )
        for one in entries
    ]
    return printing.table(("ID", "REASON", "SINCE", "ENDS"), rows)
