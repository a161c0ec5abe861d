"""Templates: a folder per mail, a folder in it per language, three files in that.

    templates/<name>/<locale>/{subject.txt,body.txt,body.html}.j2
    templates/<name>/template.json     its sender, its reply-to, what its parameters may hold
    templates/<name>/sample.json       parameters to try it with; sample-<which>.json for more
    templates/_layout/body.html.j2     what HTML bodies extend

    folders   which files there are: an earlier directory's hide the later ones'
    sources   what the files are in Jinja's eyes: the sandbox, the variables, the version
    declared  template.json, and the parameters that it refuses
    filling   a template and parameters to a mail
    printing  what of a value may stand in it
    bounding  how much a number may make
    telling   where and why it could not be filled in

Parameters are values, never source: nothing that a producer sends is compiled. Which template a
message may use, and where its link comes from, is decided elsewhere.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from postlease.config import settings
from postlease.rendering.filling import Templates
from postlease.rendering.folders import FALLBACK_LOCALE, SHIPPED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from postlease.model import RenderedMail

__all__ = [
    "FALLBACK_LOCALE",
    "SHIPPED",
    "Templates",
    "render",
    "required_variables",
    "templates",
]


@functools.cache
def templates() -> Templates:
    """This process's templates: the configured directory's first, then the shipped ones."""
    configured = settings().templates_directory
    return Templates(*([Path(configured)] if configured else []), SHIPPED)


def render(template: str, locale: str, parameters: Mapping[str, Any]) -> RenderedMail:
    """`Templates.render` with this process's templates."""
    return templates().render(template, locale, parameters)


def required_variables(template: str, locale: str) -> frozenset[str]:
    """`Templates.required_variables` with this process's templates."""
    return templates().required_variables(template, locale)
