"""Where and why a template could not be filled in, told without any value."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from postlease.rendering import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.rendering.sources import NotATextError, NotFitError, Sources

_UNDEFINED = re.compile(r"'(\w+)' is undefined|.* has no (?:attribute|element) '(\w+)'", re.DOTALL)
_KINDS = ((type(None), "null"), (bool, "true or false"), (list, "a list"), (dict, "an object"))


def places(error: Exception, sources: Sources) -> list[tuple[str, int]]:
    """File and line of every template that error came by, the innermost last."""
    return [
        (frame.filename, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if sources.path(frame.filename)
    ]


def undefined(
    error: Exception, file: str, line: int, trees: Mapping[str, nodes.Template]
) -> str | None:
    """What is undefined, as the template writes it (`order.total`); None where that is not certain.

    Jinja's own text may quote a value (`table[key]`), so only what stands in the source is told.
    """
    match = _UNDEFINED.fullmatch(str(error))
    if match is None or file not in trees:
        return None
    found = [
        (node.lineno != line, text)
        for node in trees[file].find_all((nodes.Name, nodes.Getattr, nodes.Getitem))
        if (text := _written(node)) and text.rpartition(".")[2] == (match[1] or match[2])
        if bool(match[1]) == isinstance(node, nodes.Name)
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def not_a_text(error: NotATextError) -> str:
    """A sentence."""
    kind = next((word for kind, word in _KINDS if isinstance(error.value, kind)), "this")
    return f"{kind} is nothing to show as text"


def parameter(
    error: NotFitError,
    came_by: list[tuple[str, int]],
    trees: Mapping[str, nodes.Template],
    parameters: Mapping[str, Any],
) -> str:
    """The pointer of the parameter that does not fit, empty where it is not certain."""
    pointers = declared.pointers(parameters, error.value)
    # Python has each text of less than two characters once, wherever it came from.
    is_shared = isinstance(error.value, str) and len(error.value) < 2
    if len(pointers) > 1 or is_shared:
        names = {
            node.name
            for file, line in came_by
            if file in trees
            for node in trees[file].find_all(nodes.Name)
            if node.lineno == line
        }
        pointers = [pointer for pointer in pointers if pointer.split("/")[2] in names]
    return pointers[0] if len(pointers) == 1 else ""


def _written(node: nodes.Node) -> str | None:
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            member = node.attr
        case nodes.Getitem(arg=nodes.Const(value=str() as member)):
            pass
        case _:
            return None
    before = _written(node.node)
    return f"{before}.{member}" if before else f"….{member}"
