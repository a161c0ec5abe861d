"""JSON (RFC 8259) read strictly, as I-JSON (RFC 7493) wants it: one text, one meaning. Pure.

Two readers of a text must not disagree about it, and what is read must fit into PostgreSQL. So
doubled members, NUL, lone surrogates, numbers that are no finite double or 64-bit integer, a byte
order mark and deep nesting are refused, each with its place.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from postlease.errors import MalformedInputError

MAXIMUM_DEPTH = 64

_INTEGER_BITS = 63
# int() takes longer than linear time; nothing with more digits fits into 64 bits anyway.
_LONGEST_INTEGER = 20
# An address has an @, whatever its form, and a token 64 characters: such a name is not repeated.
_NAME = re.compile("[^@%\ufe6b\uff20]{0,32}")
_NOT_SHOWN = "..."
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Doubled(dict[str, Any]):
    """An object one of whose members stands twice; name is the member's."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class _BadNumber:
    """A number that is out of range, or one of the names that JSON does not have."""


def parse(content: bytes) -> Any:
    """The value that content, UTF-8, stands for.

    Raises MalformedInputError with the JSON pointer of the value at fault (empty when the text as a
    whole cannot be read). Its detail names a doubled member and repeats no value. A name that could
    be an address or a token is `...` in both.
    """
    if content.startswith(b"\xef\xbb\xbf"):
        _refuse("", "the body must not begin with a byte order mark")
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=lambda _: _BadNumber(),
        )
    except UnicodeDecodeError:
        _refuse("", "the body is not UTF-8")
    except RecursionError:
        _refuse("", f"the body is nested deeper than {MAXIMUM_DEPTH} levels")
    except ValueError:
        _refuse("", "the body is not JSON")
    _check(value)
    return value


def check_depth(beginning: bytes) -> None:
    """Refuse a text that is nested too deep already where it begins, whatever follows."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", beginning)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAXIMUM_DEPTH:
            _refuse("", f"the body is nested deeper than {MAXIMUM_DEPTH} levels")


def child(pointer: str, name: str) -> str:
    """The JSON pointer (RFC 6901) of a member or element below pointer."""
    return f"{pointer}/{shown(name).replace('~', '~0').replace('/', '~1')}"


def shown(name: str) -> str:
    """name, or `...` where it could be an address or a token."""
    return name if _NAME.fullmatch(name) else _NOT_SHOWN


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    if len(result) == len(members):
        return result
    counted = Counter(name for name, _ in members)
    return _Doubled(next(name for name, times in counted.items() if times > 1))


def _integer(digits: str) -> int | _BadNumber:
    if len(digits) > _LONGEST_INTEGER:
        return _BadNumber()
    number = int(digits)
    return number if -(1 << _INTEGER_BITS) <= number < 1 << _INTEGER_BITS else _BadNumber()


def _float(digits: str) -> float | _BadNumber:
    number = float(digits)
    return number if math.isfinite(number) else _BadNumber()


def _check(value: Any) -> None:
    """Refuse the first value at fault. A stack of our own: depth must not be Python's."""
    stack: list[tuple[str, int, Any]] = [("", 1, value)]
    while stack:
        pointer, depth, current = stack.pop()
        if isinstance(current, _Doubled):
            place = child(pointer, current.name)
            _refuse(place, f"the member {json.dumps(shown(current.name))} stands twice")
        if isinstance(current, _BadNumber):
            _refuse(pointer, "the number is not finite or does not fit into 64 bits")
        if isinstance(current, str):
            _check_text(pointer, current)
        elif isinstance(current, dict | list):
            if depth > MAXIMUM_DEPTH:
                _refuse("", f"the body is nested deeper than {MAXIMUM_DEPTH} levels")
            members = current.items() if isinstance(current, dict) else enumerate(current)
            for name, inner in members:
                place = child(pointer, str(name))
                if isinstance(name, str):
                    _check_text(place, name)
                stack.append((place, depth + 1, inner))


def _check_text(pointer: str, text: str) -> None:
    if "\0" in text:
        _refuse(pointer, "a NUL character is not allowed")
    if _SURROGATE.search(text):
        _refuse(pointer, "half of a surrogate pair is not a character")


def _refuse(pointer: str, detail: str) -> NoReturn:
    raise MalformedInputError(pointer, detail)
