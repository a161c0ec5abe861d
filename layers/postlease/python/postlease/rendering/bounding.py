"""How much a template makes of a value: what a parameter multiplies must fit into a mail.

A rating of five shows five stars. One of a billion would take all the memory there is, and the
worker with every mail that it holds; a power would take its time. A text a thousand times is no
mail either.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment, SandboxedFormatter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jinja2.runtime import Context

_GROWS = frozenset(
    {"batch", "center", "indent", "join", "replace", "round", "slice", "tojson", "wordwrap"}
)
"""Filters that make as much as a number says, or a text as often as another one has room for it."""
_METHODS = frozenset({"center", "expandtabs", "join", "ljust", "replace", "rjust", "zfill"})
"""The same of texts."""
_BEFORE_EACH = {"expandtabs": "\t", "indent": "\n"}
"""Where what is as wide as a number says stands once more."""
_HIDDEN = frozenset({"encode", "to_bytes", "translate"})
"""Methods that no mail needs: bytes grow in every way that texts do, and so do tables of texts."""
_CONVERSION = re.compile(r"%(\([^()]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.?)", re.DOTALL)
"""One of those that `%` fills in: its key, width, precision and kind."""

FITS = "fits"
"""The filter that refuses a text which has grown too large."""
_MOST_BITS = 100_000
_MOST_INDENT = 16
_MOST_TEXT = 10_000_000


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, in which no number makes more than its `range` would, and nothing a huge text.

    OverflowError where one is to.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        del self.globals["lipsum"]  # so many paragraphs of filler as a number says
        for name in _GROWS:
            self.filters[name] = _bounded(name, self.filters[name])
        self.filters[FITS] = _fitting
        self.filters["format"] = _filling(self.filters["format"])

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Whatever a template, a block, a macro or a `set` wrote."""
        return "".join(_counted(parts))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """What the sandbox says, but for what no mail needs."""
        hidden = attr in _HIDDEN and isinstance(obj, str | int)
        return not hidden and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The sum, product, power or filled in text, if it is not too large."""
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "+" and isinstance(left, str | list | tuple):
            _check(len(left), most=_MOST_TEXT)
        elif operator == "*" and whole:
            _check(left.bit_length() + right.bit_length(), most=_MOST_BITS)
        elif operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | list | tuple) and isinstance(other, int):
                    _check(len(one) * other)
                    _check(_weight(one) * other, most=_MOST_TEXT)
        elif operator == "**" and whole:
            _check(left.bit_length() * right, most=_MOST_BITS)
        elif operator == "%" and isinstance(left, str):
            _check_filled(left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *given: Any, **named: Any) -> Any:
        """What the sandbox does, if a text's method is not to make too much."""
        text = getattr(called, "__self__", None)
        if isinstance(text, str) and getattr(called, "__name__", "") in _METHODS:
            given = tuple(list(one) if hasattr(one, "__next__") else one for one in given)
            _check_grown(called.__name__, text, (*given, *named.values()))
        return super().call(context, called, *given, **named)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The sandbox's `format` and `format_map`, after a look at how much they make."""
        formats = super().wrap_str_format(value)
        if formats is None:
            return None

        @functools.wraps(formats)
        def bounded(*given: Any, **named: Any) -> str:
            of_map = given and value.__name__ == "format_map"
            values: tuple[Any, Any] = ((), given[0]) if of_map else (given, named)
            _Measuring(self).vformat(str(value.__self__), *values)
            return formats(*given, **named)

        return bounded


class _Measuring(SandboxedFormatter):
    """Refuses a field, before it is made, that is too wide; and all of them together."""

    made = 0

    def format_field(self, value: Any, format_spec: str) -> str:
        _check(sum(map(int, re.findall(r"\d+", format_spec))))
        text: str = super().format_field(value, format_spec)
        self.made += len(text)
        _check(self.made, most=_MOST_TEXT)
        return text


def _bounded(name: str, makes: Callable[..., Any]) -> Callable[..., Any]:
    first = 1 if hasattr(makes, "jinja_pass_arg") else 0

    @functools.wraps(makes)
    def bounded(*given: Any, **named: Any) -> Any:
        _check_grown(name, given[first], (*given[first + 1 :], *named.values()))
        return makes(*given, **named)

    return bounded


def _filling(fills: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(fills)
    def filled(text: Any, *given: Any, **named: Any) -> str:
        _check_filled(str(text), named or given)
        return fills(text, *given, **named)

    return filled


def _check_grown(name: str, value: Any, given: tuple[Any, ...]) -> None:
    """Whether the filter or the method of that name makes too much of value."""
    numbers = [abs(one) for one in given if isinstance(one, int)]
    longest = max((len(one) for one in given if isinstance(one, str)), default=0)
    if name == "join":
        parts, between = (given[0], len(value)) if isinstance(value, str) else (value, longest)
        made = sum(between + (len(part) if isinstance(part, str) else 0) for part in parts)
        _check(made, most=_MOST_TEXT)
    elif name == "replace":
        texts = [str(one) for one in given]
        most = max(map(str(value).count, texts), default=0)
        _check(most * max(map(len, texts), default=0), most=_MOST_TEXT)
    elif name == "tojson":
        _check(max(longest, *numbers, 0), most=_MOST_INDENT)
    else:
        _check(max(*numbers, 0, 0))
        if name == "wordwrap":
            _check(len(value) * longest, most=_MOST_TEXT)
        elif name in _BEFORE_EACH:
            times = value.count(_BEFORE_EACH[name]) + 1
            _check(times * max(longest, *numbers, 0), most=_MOST_TEXT)


def _check_filled(text: str, values: tuple[Any, ...] | Mapping[str, Any] | Any) -> None:
    """Whether `text % values` makes too much. What it refuses itself is left to it."""
    waiting = iter(values if isinstance(values, tuple) else (values,))
    made = 0
    for conversion in _CONVERSION.finditer(text):
        key, *widths, kind = conversion.groups("")
        if kind == "(":  # a key with brackets in it, behind which a width would not be seen
            raise OverflowError
        for written in widths:
            width = next(waiting, 0) if written == "*" else int(written or 0)
            if isinstance(width, int):
                _check(abs(width))
                made += abs(width)
        if kind != "%":
            shown = values.get(key[1:-1]) if key and isinstance(values, dict) else None
            shown = shown if key else next(waiting, None)
            made += len(shown) if isinstance(shown, str) else 0
        _check(made, most=_MOST_TEXT)


def _weight(value: Any) -> int:
    """How much text there is in a value, however deep: what a list repeats, a filter may copy."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return len(value) + sum(map(_weight, value))
    return len(value) if isinstance(value, str) else 1


def _fitting(text: Any) -> Any:
    if isinstance(text, str):
        _check(len(text), most=_MOST_TEXT)
    return text


def _counted(parts: Iterable[str]) -> Iterable[str]:
    made = 0
    for part in parts:
        made += len(part)
        if made > _MOST_TEXT:
            raise OverflowError
        yield part


def _check(number: int, *, most: int = MAX_RANGE) -> None:
    if number > most:
        raise OverflowError
