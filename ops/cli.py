"""Where the commands begin, and what becomes of an error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ops import counting, finding, gating, mending, suppressing
from ops.connecting import Wish
from ops.failing import OpsError
from ops.printing import complain
from ops.shell import Shell, pass_shell, with_json

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


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
    4 no credentials, or not allowed; 5 the API did not answer; 6 not confirmed.
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
    gating.gate,
    counting.stats,
    counting.watch,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Do what arguments (by default the process's own) say; the exit status."""
    shell = Shell()
    try:
        status = cli.main(arguments, prog_name="ops", obj=shell, standalone_mode=False)
    except OpsError as error:
        complain(error, as_json=shell.as_json)
        return error.status
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return _INTERRUPTED
    except SystemExit:  # so click ends what writes to nobody: `ops list | head` has seen enough
        return 0
    return status or 0


def main() -> None:
    """Run, and end the process."""
    sys.exit(run())
