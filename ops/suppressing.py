"""`suppress` and `unsuppress`: whom no mail is sent to. No address is printed or put into a URL."""

from __future__ import annotations

import re

import click

from ops import asking, printing
from ops.failing import UNKNOWN, OpsError
from ops.shell import Shell, pass_shell, with_json

_DIGEST = re.compile(r"[0-9a-f]{64}")


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
    click.echo(f"Suppressed {end}, as {entry['id']}.")


@click.command()
@click.argument("address")
@click.option("--reason", type=click.Choice(["bounce", "complaint", "manual"]), help="Only so.")
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
    click.echo(f"Off the list: {', '.join(reasons) or 'all reasons'}, as {found}.")
