"""What is wrong with a request, collected: its caller learns of everything at once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from postlease.errors import InvalidInputError, MalformedInputError, RefusedInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 20
"""So many are told. Nobody reads more, and a body may hold thousands."""

_WORST_FIRST = (MalformedInputError, InvalidInputError, RefusedInputError)


class Faults:
    """Faults in the order in which they were found, the first ones only."""

    def __init__(self) -> None:
        self._found: list[InvalidInputError] = []

    @property
    def is_full(self) -> bool:
        """Whether looking on is of no use."""
        return len(self._found) >= MOST

    def add(self, error: InvalidInputError) -> None:
        """Note one fault; what it tells beside is not kept."""
        if not self.is_full:
            self._found.append(error)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Let a block end at its first fault, which is noted."""
        try:
            yield
        except InvalidInputError as error:
            self.add(error)

    def end(self) -> None:
        """Raise what was noted, if anything was, as one error.

        It is of the worst kind among them: what cannot be read before what is not acceptable,
        before what cannot be done. The first fault of that kind goes first.
        """
        for kind in _WORST_FIRST:
            for error in self._found:
                if type(error) is kind:
                    others = [one for one in self._found if one is not error]
                    raise kind(
                        error.pointer,
                        error.detail,
                        [(one.pointer, one.detail) for one in others],
                    )
