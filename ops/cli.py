"""Where the commands begin, and what becomes of an error."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import click

from ops import counting, finding, gating, mending, suppressing
from ops.connecting import Wish
from ops.failing import INTERRUPTED, USAGE, OpsError
from ops.printing import complain
from ops.shell import Shell, pass_shell, with_json

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--endpoint", metavar="URL", help="The API [AWS_ENDPOINT_URL_EXECUTE_API].")
@click.option("--region", help="Of the signature [the API's name, else AWS_DEFAULT_REGION].")
@click.option("--profile", help="Whose credentials [AWS_PROFILE, AWS_ACCESS_KEY_ID, …].")
@click.option("--local", "is_local", is_flag=True, help="The stack on this machine [PORT or 8000].")
@with_json
@pass_shell
def cli(
    shell: Shell, endpoint: str | None, region: str | None, profile: str | None, *, is_local: bool
) -> None:
    """See what became of mail, and mend what is stuck.

    Exit status: 0 done; 1 the API refused; 2 wrong command line; 3 no such message, gate or entry;
    4 no credentials, or not allowed; 5 the API did not answer; 6 not confirmed; 130 interrupted.
    """
    shell.wish = Wish(endpoint, region, profile, is_local)


for command in (
    finding.list_messages,
    finding.show,
    mending.retry,
    mending.cancel,
    mending.resolve,
    suppressing.suppress,
    suppressing.unsuppress,
    suppressing.suppressions,
    gating.gate,
    counting.stats,
    counting.watch,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Do what arguments (by default the process's own) say; the exit status."""
    shell = Shell()
    typed = sys.argv[1:] if arguments is None else arguments
    if any("\ud800" <= sign <= "\udfff" for one in typed for sign in one):
        click.echo("ops: what was typed holds bytes that are no text", err=True)
        return USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may know less than Unicode
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(typed, prog_name="ops", obj=shell, standalone_mode=False)
    except OpsError as error:
        complain(error, as_json=shell.as_json)
        return error.status
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except SystemExit:  # so click ends what writes to nobody: `ops list | head` has seen enough
        return 0
    return status or 0


def main() -> None:
    """Run, and end the process."""
    sys.exit(run())
