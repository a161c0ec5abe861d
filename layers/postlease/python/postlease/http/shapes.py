"""A body's members checked by what its operation says of them (JSON Schema, of which this reads
what `operations` writes). Each fault has its JSON pointer, and none repeats a value.

An alternative (`oneOf`) is told by the JSON type that a value has. Formats are read by whoever
needs what stands in them.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from postlease.errors import InvalidInputError, MalformedInputError
from postlease.strict_json import child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from postlease.faults import Faults

_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def check(schema: Mapping[str, Any], value: Any, faults: Faults, pointer: str = "") -> None:
    """Note in faults what is wrong with value.

    A member that is not known is a MalformedInputError, everything else an InvalidInputError.
    """
    if faults.is_full:
        return
    alternatives = schema.get("oneOf", [schema])
    for one in alternatives:
        if _is_of(one, value):
            if value is not None:
                _BY_KIND[_kinds(one)[0]](one, value, faults, pointer)
            return
    wanted = [_KINDS[kind] for one in alternatives for kind in _kinds(one) if kind in _KINDS]
    faults.add(InvalidInputError(pointer, f"must be {' or '.join(wanted)}"))


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema["type"]
    return kind if isinstance(kind, list) else [kind]


def _is_of(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether value has a type that schema names; 50.0 is a whole number (JSON Schema, 4.2.3)."""
    match value:
        case None:
            kind = "null"
        case bool():
            kind = "boolean"
        case int():
            kind = "integer"
        case float():
            kind = "integer" if value.is_integer() else "number"
        case str():
            kind = "string"
        case list():
            kind = "array"
        case _:
            kind = "object"
    return kind in _kinds(schema)


def _check_text(schema: Mapping[str, Any], value: str, faults: Faults, pointer: str) -> None:
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if "enum" in schema and value not in schema["enum"]:
        words = ", ".join(f"`{word}`" for word in schema["enum"] if word is not None)
        faults.add(InvalidInputError(pointer, f"must be one of {words}"))
    elif len(value) < low:
        faults.add(InvalidInputError(pointer, f"must have at least {low} characters"))
    elif high is not None and len(value) > high:
        faults.add(InvalidInputError(pointer, f"must have at most {high} characters"))
    elif "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        faults.add(InvalidInputError(pointer, "has a form or a character that is not allowed"))


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of ECMA-262, where `$` is the very end."""
    return re.compile(re.sub(r"\$$", r"\\Z", text))


def _check_number(schema: Mapping[str, Any], value: float, faults: Faults, pointer: str) -> None:
    if "enum" in schema and value not in schema["enum"]:
        words = ", ".join(str(word) for word in schema["enum"] if word is not None)
        faults.add(InvalidInputError(pointer, f"must be one of {words}"))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        faults.add(InvalidInputError(pointer, f"must be at least {low}"))
    if high is not None and value > high:
        faults.add(InvalidInputError(pointer, f"must be at most {high}"))


def _check_flag(schema: Mapping[str, Any], value: bool, faults: Faults, pointer: str) -> None:  # noqa: FBT001
    """True and false are both right."""


def _check_list(schema: Mapping[str, Any], value: list[Any], faults: Faults, pointer: str) -> None:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < low or (high is not None and len(value) > high):
        span = f"at least {low}" if high is None else f"{low} to {high}"
        faults.add(InvalidInputError(pointer, f"must have {span} elements"))
        return
    for place, inner in enumerate(value):
        check(schema["items"], inner, faults, child(pointer, str(place)))


def _check_object(
    schema: Mapping[str, Any], value: Mapping[str, Any], faults: Faults, pointer: str
) -> None:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if len(value) > schema.get("maxProperties", len(value)):
        most = schema["maxProperties"]
        faults.add(InvalidInputError(pointer, f"must have at most {most} members"))
        return
    for name in schema.get("required", ()):
        if name not in value:
            faults.add(InvalidInputError(child(pointer, name), "is required"))
    for name, inner in value.items():
        place = child(pointer, name)
        if name in properties:
            check(properties[name], inner, faults, place)
        elif others is False:
            faults.add(MalformedInputError(place, "this member is not known"))
        elif isinstance(others, dict):
            if "propertyNames" in schema:
                _check_text(schema["propertyNames"], name, faults, place)
            check(others, inner, faults, place)


_BY_KIND: Mapping[str, Callable[[Any, Any, Faults, str], None]] = {
    "string": _check_text,
    "integer": _check_number,
    "boolean": _check_flag,
    "array": _check_list,
    "object": _check_object,
}
