"""What all commands share: how the API is reached, how answers are printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from ops.client import Api
from ops.connecting import Wish, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


@dataclass(slots=True)
class Shell:
    """One call of the command line."""

    wish: Wish = field(default_factory=Wish)
    as_json: bool = False

    def api(self) -> Api:
        """The API that the options and the environment name. OpsError says what is missing."""
        return Api(connect(self.wish))


def _note(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        context.find_object(Shell).as_json = True  # type: ignore[union-attr]  # main makes one


pass_shell = click.make_pass_decorator(Shell)

with_json: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", is_flag=True, expose_value=False, callback=_note, help="Print JSON, for programs."
)
with_yes: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--yes", is_flag=True, help="Do not ask."
)
