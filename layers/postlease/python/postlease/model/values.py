"""Values that are made for each message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """cls as a dataclass with slots that nobody changes: the type checker refuses to.

    `frozen=True` has the interpreter refuse too, and costs three times as much to make one.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
