"""The files in Jinja's eyes: the sandbox, the variables that they need, the version they make."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from postlease.errors import TemplateError
from postlease.rendering.folders import DECLARATION, FILES

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

    from postlease.rendering.folders import Folders

_FORGIVING = frozenset({"default", "d", "defined", "undefined"})
_MAKES_MARKUP = ("safe", "urlize")
"""Filters that there are not: a value never becomes markup, whatever a template says."""
_GIVEN = frozenset({"locale", "direction"})
"""What every template has without asking: the language found for it, and how that one runs."""

_WEB_LINK = re.compile(r"https?://[^\s<>\"\\/?#@]+([/?#][^\s<>\"\\]*)?")


class NotFitError(ValueError):
    """What a template cannot take. value is for comparing, never to tell."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class NotALinkError(NotFitError):
    """What was to stand in an href is no http or https URL."""


class NotATextError(NotFitError):
    """What was to be shown is no text and no number."""


class Facts(NamedTuple):
    """What the source of a template in one language tells."""

    required: frozenset[str]
    version: str


class Sources:
    """The compiled files of some folders."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.environment = functools.cache(self._make_environment)
        self.facts = functools.cache(self._read_facts)
        self.path = folders.path

    def _make_environment(self) -> SandboxedEnvironment:
        # 55 to 80 ms of import: a sweep that finds nothing due does not pay.
        from jinja2 import FunctionLoader, StrictUndefined  # noqa: PLC0415

        from postlease.rendering.printing import Environment  # noqa: PLC0415

        environment = Environment(
            # With its name, a file's lines are found in tracebacks.
            loader=FunctionLoader(lambda file: (self._folders.source(file), file, None)),
            undefined=StrictUndefined,
            autoescape=lambda file: file is not None and file.endswith(".html.j2"),
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters["web_link"] = _web_link
        for name in _MAKES_MARKUP:
            del environment.filters[name]
        return environment

    def _read_facts(self, template: str, found: str) -> Facts:
        """Required variables and version of template in the language found."""
        from jinja2 import meta  # noqa: PLC0415

        required: set[str] = set()
        sources: dict[str, str] = {}
        for file in FILES:
            trees = self.trees(f"{template}/{found}/{file}")
            sources |= {name: self._folders.source(name) for name in trees}
            for name, tree in trees.items():
                try:
                    required |= meta.find_undeclared_variables(tree) | _names_shown(tree)
                except RecursionError:
                    raise TemplateError("render_error", f"{name} is nested too deep") from None
            for tree in trees.values():
                required -= _names_set(tree) | _names_optional(tree)
        declaration = f"{template}/{DECLARATION}"
        if self._folders.path(declaration):
            sources[declaration] = self._folders.source(declaration)
        digest = hashlib.sha256()
        for part in itertools.chain.from_iterable(sorted(sources.items())):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return Facts(frozenset(required - _GIVEN), digest.hexdigest()[:12])

    def trees(self, file: str) -> dict[str, nodes.Template]:
        """file and whatever it extends, includes or imports, by name.

        TemplateError with the line of what cannot compile: bad syntax, a filter or test that does
        not exist, escaping switched off, a file that is named by a variable (no version would cover
        it).
        """
        from jinja2 import TemplateSyntaxError, meta  # noqa: PLC0415

        waiting, trees = [file], dict[str, "nodes.Template"]()
        while waiting:
            name = waiting.pop()
            if name in trees:
                continue
            try:
                tree = self.environment().parse(self._folders.source(name))
                self._refuse_unknown(name, tree)
                _refuse_unescaped(name, tree)
                references = list(meta.find_referenced_templates(tree))
            except TemplateSyntaxError as error:
                place = f"{name}, line {error.lineno}"
                raise TemplateError("render_error", f"{place}: {error.message}") from None
            except RecursionError:
                raise TemplateError("render_error", f"{name} is nested too deep") from None
            if None in references:
                raise TemplateError("render_error", f"{name} names a file by a variable")
            trees[name] = tree
            waiting += filter(None, references)
        return trees

    def _refuse_unknown(self, file: str, tree: nodes.Template) -> None:
        """Jinja itself tells of a filter in a branch only when that branch is taken."""
        from jinja2 import nodes  # noqa: PLC0415

        for kind, known in (
            (nodes.Filter, self.environment().filters),
            (nodes.Test, self.environment().tests),
        ):
            for node in tree.find_all(kind):
                if node.name not in known:
                    what = f"there is no {kind.__name__.lower()} {node.name}"
                    raise TemplateError("render_error", f"{file}, line {node.lineno}: {what}")


def _refuse_unescaped(file: str, tree: nodes.Template) -> None:
    """`{% autoescape false %}` would make markup of every value within."""
    from jinja2 import nodes  # noqa: PLC0415

    for node in tree.find_all(nodes.EvalContextModifier):
        place = f"{file}, line {node.lineno}"
        raise TemplateError("render_error", f"{place}: autoescape cannot be switched")


def _web_link(value: object) -> str:
    """The value if it is an http or https URL: what may stand in an href.

    Nothing in it is blank or invisible, and no name stands before its host: those that read
    `https://bank.example@evil.example` are led astray.
    """
    text = str(value)
    if text.isascii():
        # The same question, and most links are ASCII: one by one it is a quarter of a rendering.
        invisible = not text.isprintable()
    else:
        invisible = any(unicodedata.category(c).startswith("C") for c in text)
    if invisible or not _WEB_LINK.fullmatch(text):
        raise NotALinkError(value)
    return text


def _names_set(tree: nodes.Template) -> set[str]:
    """What a file defines at its top: its blocks see it, and so does the file that it extends."""
    from jinja2 import nodes  # noqa: PLC0415

    names: set[str] = set()
    for node in tree.body:
        match node:
            case nodes.FromImport():
                names |= {name if isinstance(name, str) else name[1] for name in node.names}
            case nodes.Import():
                names.add(node.target)
            case nodes.Macro():
                names.add(node.name)
            case nodes.Assign() | nodes.AssignBlock():
                names |= {name.name for name in node.target.find_all(nodes.Name)}
                if isinstance(node.target, nodes.Name):
                    names.add(node.target.name)
            case _:
                pass
    return names


def _names_shown(tree: nodes.Template) -> set[str]:
    """Functions of Jinja's own (`range`) that are used as if they were parameters.

    Without the parameter, a reader would be shown the function.
    """
    from jinja2 import defaults, nodes  # noqa: PLC0415

    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    names = [node for node in tree.find_all(nodes.Name) if node.name in defaults.DEFAULT_NAMESPACE]
    shown = {node.name for node in names if node.ctx == "load" and id(node) not in called}
    return shown - {node.name for node in names if node.ctx != "load"}


def _names_optional(tree: nodes.Template) -> set[str]:
    from jinja2 import nodes  # noqa: PLC0415

    return {
        node.node.name
        for node in tree.find_all((nodes.Filter, nodes.Test))
        if node.name in _FORGIVING and isinstance(node.node, nodes.Name)
    }
