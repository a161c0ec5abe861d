"""What a route takes and answers, said once. Pure: values that `http` obeys and that the API's
description is made of, so that the two cannot differ.

A `Value` is a JSON Schema (2020-12); an object is a mapping of names to values, all required.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from postlease import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.problems import Problem

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
HTML = "text/html; charset=utf-8"

SMALL = 64 * 1024
"""What a body may have in bytes, where its operation allows no more."""

Place: TypeAlias = Literal["path", "query", "header"]


@dataclass(frozen=True, slots=True)
class Value:
    """What one value may be."""

    schema: Mapping[str, Any]

    def or_null(self) -> Value:
        """The same, or null."""
        if "oneOf" in self.schema:
            return Value({**self.schema, "oneOf": [*self.schema["oneOf"], {"type": "null"}]})
        schema = {**self.schema, "type": [self.schema["type"], "null"]}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return Value(schema)


Shape: TypeAlias = "Value | Mapping[str, Shape]"


def text(note: str = "", **schema: Any) -> Value:
    """Text; schema is what else JSON Schema says of it."""
    return Value({"type": "string", **({"description": note} if note else {}), **schema})


def number(note: str = "", **schema: Any) -> Value:
    """A whole number."""
    return Value({"type": "integer", **({"description": note} if note else {}), **schema})


def choice(*words: str, note: str = "") -> Value:
    """One of these words."""
    return text(note, enum=list(words))


def number_of(*numbers: int, note: str = "") -> Value:
    """One of these numbers."""
    return number(note, enum=list(numbers))


def flag(note: str = "") -> Value:
    """True or false."""
    return Value({"type": "boolean", **({"description": note} if note else {})})


def listed(shape: Shape, note: str = "", **schema: Any) -> Value:
    """Any number of these, or as many as schema says."""
    described = {"description": note} if note else {}
    return Value({"type": "array", "items": schema_of(shape), **described, **schema})


def mapped(value: Value | None, note: str = "", **schema: Any) -> Value:
    """An object with names of the caller's own; None: with whatever JSON can say behind them."""
    described = {"description": note} if note else {}
    inner = {} if value is None else {"additionalProperties": dict(value.schema)}
    return Value({"type": "object", **inner, **described, **schema})


def either(*values: Value, note: str = "") -> Value:
    """One of these, which are of different JSON types."""
    alternatives = [dict(value.schema) for value in values]
    return Value({"oneOf": alternatives, **({"description": note} if note else {})})


def object_of(*members: Member, note: str = "") -> Value:
    """An object of these members and no others."""
    return Value(
        {
            "type": "object",
            "required": [member.name for member in members if member.is_required],
            "properties": {member.name: dict(member.value.schema) for member in members},
            "additionalProperties": False,
            **({"description": note} if note else {}),
        }
    )


def schema_of(shape: Shape) -> dict[str, Any]:
    """The JSON Schema of a shape."""
    if isinstance(shape, Value):
        return dict(shape.schema)
    return {
        "type": "object",
        "required": list(shape),
        "properties": {name: schema_of(inner) for name, inner in shape.items()},
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a body; an optional text may be absent or null."""

    name: str
    value: Value
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Body:
    """The members that a body may have, and no others. most_bytes: of the whole body."""

    members: tuple[Member, ...]
    media_type: str = JSON
    most_bytes: int = SMALL

    @property
    def required(self) -> tuple[str, ...]:
        """The names that must be there."""
        return tuple(member.name for member in self.members if member.is_required)

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(member.name for member in self.members)


def body(*members: Member, media_type: str = JSON, most_bytes: int = SMALL) -> Body:
    """A body of these members."""
    return Body(members, media_type, most_bytes)


def optional(name: str, value: Value) -> Member:
    """A member that may be absent or null."""
    return Member(name, value.or_null(), is_required=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a request says beside its body."""

    place: Place
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Reply:
    """One way in which a request goes well. headers are those that only some answers have."""

    status: int
    note: str
    shape: Shape | None = None
    media_type: str = JSON
    headers: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    bodies are alternatives. problems are those of its own; what follows from the way a request is
    read need not be named. is_static: the answer asks nobody, no database either.
    """

    replies: tuple[Reply, ...]
    bodies: tuple[Body, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[Problem, ...] = ()
    is_static: bool = False

    def names(self, place: Place) -> tuple[str, ...]:
        """The names of the parameters there."""
        return tuple(one.name for one in self.parameters if one.place == place)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Every problem that can be answered, by status and slug."""
        found = {problems.INTERNAL_ERROR, *self.problems}
        if not self.is_static:
            found.add(problems.UNAVAILABLE)
        if self.bodies or (self.parameters and not self.is_static):
            found.add(problems.INVALID_REQUEST)
        if self.bodies:
            found |= {
                problems.FORM_OF_ANOTHER_SITE,
                problems.PAYLOAD_TOO_LARGE,
                problems.UNSUPPORTED_MEDIA_TYPE,
            }
        if self.bodies or (self.names("query") and not self.is_static):
            found.add(problems.INVALID_FIELD)
        if self.names("path"):
            found.add(problems.NOT_FOUND)  # a slash within the parameter makes another path
        return tuple(sorted(found, key=lambda problem: (problem.status, problem.slug)))

    def has_reply(self, status: int, media_type: str | None) -> bool:
        """Whether a request may go well in this way."""
        return any(
            reply.status == status
            and (reply.media_type if reply.shape is not None else None) == media_type
            for reply in self.replies
        )
