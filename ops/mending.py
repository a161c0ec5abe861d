"""`retry`, `cancel`, `resolve`: what is changed of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ops import asking, printing, timeline
from ops.failing import FORBIDDEN, INTERRUPTED, UNAVAILABLE, OpsError
from ops.shell import Shell, pass_shell, with_json, with_yes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ops.client import Api

    _Act = Callable[[Api, str], dict[str, Any]]

_IDS = click.argument("event_ids", type=asking.MESSAGE_ID, nargs=-1, metavar="EVENT_ID...")
_FATAL = {FORBIDDEN, UNAVAILABLE, INTERRUPTED}
"""What would be so for the next message too."""


@click.command()
@_IDS
@click.option("--reason", type=click.Choice(sorted(timeline.REASONS)), help="All that failed so.")
@click.option("--template", metavar="NAME", help="Of those, this template's.")
@click.option("--since", type=asking.AGO, help="Of those, made then or later: 30m, 2d, or a time.")
@click.option("--until", type=asking.AGO, help="Of those, made earlier.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@with_yes
@with_json
@pass_shell
def retry(  # each option is one
    shell: Shell,
    event_ids: tuple[str, ...],
    *,
    reason: str | None,
    template: str | None,
    since: str | None,
    until: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Have failed messages sent once more: these, or all of a --reason.

    Of a reason they are counted first. `-` reads ids from standard input.
    """
    narrowed = template or since or until
    if bool(event_ids) == bool(reason):
        raise click.UsageError("name messages by their ids, or all of a reason by --reason")
    if event_ids and (narrowed or dry_run):
        raise click.UsageError("--template, --since, --until and --dry-run go with --reason")
    if event_ids:
        return _each(shell, "Retry", event_ids, yes, lambda api, one: api.post(_path(one, "retry")))
    meant = {
        "reason": reason,
        "template": template,
        "created_after": since,
        "created_before": until,
    }
    return _retry_many(shell, meant, dry_run=dry_run, yes=yes)


@click.command()
@_IDS
@with_yes
@with_json
@pass_shell
def cancel(shell: Shell, event_ids: tuple[str, ...], *, yes: bool) -> int:
    """Take back messages that nobody is sending yet."""
    return _each(shell, "Cancel", event_ids, yes, lambda api, one: api.post(_path(one, "cancel")))


@click.command()
@_IDS
@click.option("--as", "as_", type=click.Choice(["sent", "failed"]), required=True)
@with_yes
@with_json
@pass_shell
def resolve(shell: Shell, event_ids: tuple[str, ...], *, as_: str, yes: bool) -> int:
    """Say what became of messages whose outcome nobody knows."""
    return _each(
        shell,
        f"Resolve as {as_}",
        event_ids,
        yes,
        lambda api, one: api.post(_path(one, "resolve"), {"as": as_}),
    )


def _path(message_id: str, verb: str) -> str:
    return f"/v1/messages/{message_id}/{verb}"


def _nothing(shell: Shell) -> int:
    """Tell of a list that turned out empty."""
    if shell.as_json:
        printing.document({"messages": [], "left": []})
    else:
        click.echo("No ids on standard input; nothing was to be done.", err=True)
    return 0


def _each(
    shell: Shell,
    verb: str,
    typed: tuple[str, ...],
    yes: bool,  # noqa: FBT001  as the option is called
    act: _Act,
) -> int:
    """Act on each message; the first failure's status, or 0. One refusal stops no other message."""
    if not typed:
        raise click.UsageError("name at least one message by its id")
    found = asking.ids(typed)
    if not found:
        return _nothing(shell)
    api = shell.api()
    if len(found) > 1:
        asking.confirm(f"{verb} {len(found)} messages?", yes=yes)
    failures: list[OpsError] = []
    told: list[dict[str, Any]] = []
    for one in found:
        try:
            told.append(_done(shell, _uninterrupted(act, api, one)))
        except OpsError as error:
            if len(found) == 1:
                raise
            failures.append(error)
            told.append(_failed(shell, one, error))
            if error.status in _FATAL:
                break
    left = found[len(told) :]
    if shell.as_json:
        printing.document({"messages": told, "left": left})
    elif left:
        click.echo(f"{len(left)} were not tried.", err=True)
    return failures[0].status if failures else 0


def _uninterrupted(act: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What act answers; OpsError(130) on Ctrl-C, so that what was done before is told."""
    try:
        return act(*arguments)
    except KeyboardInterrupt:
        raise OpsError(
            "interrupted; what was asked for last may have been done: look before you repeat",
            INTERRUPTED,
        ) from None


def _done(shell: Shell, message: dict[str, Any]) -> dict[str, Any]:
    if not shell.as_json:
        printing.lines([f"{message['event_id']}  {timeline.state(message)}"])
    return {"event_id": message["event_id"], "message": message}


def _failed(shell: Shell, message_id: str, error: OpsError) -> dict[str, Any]:
    if not shell.as_json:
        click.echo(f"{message_id}  {printing.plain(error)}", err=True)
    return {"event_id": message_id, "error": error.document()}


def _retry_many(shell: Shell, meant: dict[str, str | None], *, dry_run: bool, yes: bool) -> int:
    """Count, ask, and have as many sent again as were counted, a call's worth at a time."""
    api = shell.api()
    path = "/v1/messages/retry"
    counted = api.post(path, meant)["left"]
    said = f"{counted} failed ({meant['reason']}) and can be retried"
    retried, left = 0, counted
    failure: OpsError | None = None
    if not shell.as_json:
        click.echo(f"{said}.", err=not dry_run)
    if counted and not dry_run:
        if counted > 1:
            asking.confirm(f"Retry {counted} messages?", yes=yes)
        retried, left, failure = _retried(api, path, meant, counted)
    if shell.as_json:
        more = {"error": failure.document()} if failure else {}
        printing.document({"counted": counted, "retried": retried, "left": left, **more})
    elif not dry_run:
        click.echo(f"{retried} are pending again, {left} are left.")
    if failure and not shell.as_json:
        printing.complain(failure, as_json=False)
    return failure.status if failure else 0


def _retried(
    api: Api, path: str, meant: dict[str, str | None], counted: int
) -> tuple[int, int, OpsError | None]:
    """How many are pending again, how many are left, and what ended it before its time.

    What fails once more meanwhile is not taken again.
    """
    retried, left = 0, counted
    while retried < counted and left:
        try:
            answer = _uninterrupted(api.post, path, {**meant, "confirm": True})
        except OpsError as error:
            return retried, left, error
        retried, left = retried + answer["retried"], answer["left"]
        if not answer["retried"]:
            break
    return retried, left, None
