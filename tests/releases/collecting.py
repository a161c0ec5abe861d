"""The package's SQL statements, by the constant that holds each."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re

import postlease

_FIRST_LINE = re.compile(r"-- ([a-z_]+\.[a-z_]+)\n")


def name_of(statement: str) -> str | None:
    """The name in a statement's first line, `outbox.claim`; None for what has none."""
    found = _FIRST_LINE.match(statement)
    return found[1] if found else None


@functools.cache
def statements() -> dict[str, str]:
    """Every statement's text by its constant, such as `outbox.claiming.CLAIM`.

    A private constant that another's text begins with is a part of that, and no statement.
    """
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(postlease.__path__, "postlease."):
        for constant, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, str) and name_of(value) and value not in found.values():
                found[f"{module.name.removeprefix('postlease.')}.{constant}"] = value
    whole = set(found.values())
    return {
        where: text
        for where, text in found.items()
        if not where.rpartition(".")[2].startswith("_")
        or not any(other != text and other.startswith(text) for other in whole)
    }
