"""How much a template makes of a number: what a parameter multiplies must fit into a mail.

A rating of five shows five stars. One of a billion would take all the memory there is, and the
worker with every mail that it holds; a power would take its time.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2.runtime import Context

_FILLS_UP = frozenset({"batch", "center", "indent", "slice"})
"""Filters that make as much as a number says."""

_METHODS = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
"""The same of texts."""

_MOST_BITS = 100_000


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, in which no number makes more than its `range` would.

    OverflowError where one is to.
    """

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        del self.globals["lipsum"]  # so many paragraphs of filler as a number says
        for name in _FILLS_UP:
            self.filters[name] = _bounded(self.filters[name])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The product or power, if it is not too large."""
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | list | tuple) and isinstance(other, int):
                    _check(len(one) * other)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * right, most=_MOST_BITS)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *given: Any, **named: Any) -> Any:
        """What the sandbox does, if a text's method is not to make too much."""
        text = getattr(called, "__self__", None)
        if isinstance(text, str) and getattr(called, "__name__", "") in _METHODS:
            _check_all(given)
        return super().call(context, called, *given, **named)


def _bounded(makes: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(makes)
    def bounded(*given: Any, **named: Any) -> Any:
        _check_all((*given[1:], *named.values()))
        return makes(*given, **named)

    return bounded


def _check_all(numbers: tuple[Any, ...]) -> None:
    for number in numbers:
        if isinstance(number, int):
            _check(number)


def _check(number: int, *, most: int = MAX_RANGE) -> None:
    if number > most:
        raise OverflowError
