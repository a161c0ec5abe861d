"""Templates: a folder per mail, a folder in it per language, three files in that.

    templates/<name>/<locale>/{subject.txt,body.txt,body.html}.j2
    templates/<name>/sample.json       parameters to try it with
    templates/_layout/body.html.j2     what HTML bodies extend

Parameters are values, never source: nothing that a producer sends is compiled. Which template a
message may use, and where its link comes from, is decided elsewhere.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postlease.config import settings
from postlease.errors import TemplateError
from postlease.model import RenderedMail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

SHIPPED = Path(__file__).parent / "templates"
FALLBACK_LOCALE = "en"

_SUBJECT, _TEXT, _HTML = _FILES = ("subject.txt.j2", "body.txt.j2", "body.html.j2")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LOCALE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8}){0,4}")
_FORGIVING = frozenset({"default", "d", "defined", "undefined"})
_GIVEN = frozenset({"locale"})
"""What every template has without asking: the language that was found for it."""


class Templates:
    """The templates of some directories; what an earlier directory has hides the later ones'.

    Every file is read once: bytes and version of a mail always belong together, and a changed
    template takes effect in a new process.
    """

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._source = functools.cache(self._read)
        self._environment = functools.cache(self._make_environment)
        self._facts = functools.cache(self._read_facts)

    def names(self) -> list[str]:
        """Every template's name, sorted."""
        found = {entry.name for root in self._directories for entry in _folders(root)}
        return sorted(name for name in found if _NAME.fullmatch(name))

    def locales(self, template: str) -> list[str]:
        """The languages that template is written in, sorted; empty for an unknown name."""
        if not _NAME.fullmatch(template):
            return []
        found = {entry.name for root in self._directories for entry in _folders(root / template)}
        return sorted(name for name in found if _LOCALE.fullmatch(name.lower()))

    def sample(self, template: str) -> dict[str, Any]:
        """The parameters in template's sample.json."""
        self.locale_for(template, FALLBACK_LOCALE)
        sample = json.loads(self._source(f"{template}/sample.json"))
        if not isinstance(sample, dict):
            raise TemplateError("template_missing", f"{template}/sample.json is not an object")
        return sample

    def locale_for(self, template: str, locale: str) -> str:
        """The language that is used where locale is asked for: pt-BR, then pt, then en."""
        written = {_comparable(name): name for name in self.locales(template)}
        asked = _comparable(locale)
        while asked:
            if asked in written:
                return written[asked]
            asked = asked.rpartition("-")[0]
        if FALLBACK_LOCALE not in written:
            raise TemplateError("template_missing", _printable(template))
        return written[FALLBACK_LOCALE]

    def required_variables(self, template: str, locale: str) -> frozenset[str]:
        """The parameters without which rendering fails, found in the source.

        A name that the source gives a default, or asks for by `is defined`, is not required.
        """
        return self._facts(template, self.locale_for(template, locale))[0]

    def version(self, template: str, locale: str) -> str:
        """A short digest over the template's files in this language, with all they extend."""
        return self._facts(template, self.locale_for(template, locale))[1]

    def render(self, template: str, locale: str, parameters: Mapping[str, Any]) -> RenderedMail:
        """template in locale, filled in. Permanent until the template or the row changes.

        TemplateError `template_missing` or `render_error`; its text names files and variables,
        never a value.
        """
        found = self.locale_for(template, locale)
        required, version = self._facts(template, found)
        if missing := sorted(required - parameters.keys()):
            raise TemplateError("render_error", f"{template}/{found} lacks {', '.join(missing)}")
        values = {**parameters, "locale": found}
        subject, text, html = (self._fill(f"{template}/{found}/{file}", values) for file in _FILES)
        return RenderedMail(subject=subject, text=text, html=html, version=version)

    def _fill(self, file: str, values: Mapping[str, Any]) -> str:
        try:
            return self._environment().get_template(file).render(values)
        except TemplateError:
            raise
        except Exception as error:  # noqa: BLE001  a template can raise anything
            # The original text may quote a parameter.
            raise TemplateError("render_error", f"{file} ({type(error).__name__})") from None

    def _read(self, file: str) -> str:
        for root in self._directories:
            path = root / file
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise TemplateError("template_missing", file)

    def _make_environment(self) -> SandboxedEnvironment:
        # 55 to 80 ms of import: a sweep that finds nothing due does not pay.
        from jinja2 import FunctionLoader, StrictUndefined  # noqa: PLC0415
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

        environment = ImmutableSandboxedEnvironment(
            loader=FunctionLoader(self._source),
            undefined=StrictUndefined,
            autoescape=lambda file: file is not None and file.endswith(".html.j2"),
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters["web_link"] = _web_link
        return environment

    def _read_facts(self, template: str, found: str) -> tuple[frozenset[str], str]:
        """Required variables and version of template in the language found."""
        from jinja2 import meta  # noqa: PLC0415

        required: set[str] = set()
        sources: dict[str, str] = {}
        for file in _FILES:
            trees = self._parse_all(f"{template}/{found}/{file}")
            sources |= {name: self._source(name) for name in trees}
            for tree in trees.values():
                required |= meta.find_undeclared_variables(tree)
            for tree in trees.values():
                required -= _names_set(tree) | _names_optional(tree)
        digest = hashlib.sha256()
        for part in itertools.chain.from_iterable(sorted(sources.items())):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return frozenset(required - _GIVEN), digest.hexdigest()[:12]

    def _parse_all(self, file: str) -> dict[str, nodes.Template]:
        """file and whatever it extends, includes or imports, by name."""
        from jinja2 import TemplateSyntaxError, meta  # noqa: PLC0415

        waiting, trees = [file], dict[str, "nodes.Template"]()
        while waiting:
            name = waiting.pop()
            if name in trees:
                continue
            try:
                trees[name] = self._environment().parse(self._source(name))
            except TemplateSyntaxError as error:
                raise TemplateError("render_error", f"{name}, line {error.lineno}") from None
            waiting += filter(None, meta.find_referenced_templates(trees[name]))
        return trees


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


def _folders(root: Path) -> Iterator[Path]:
    return (entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else iter(())


def _comparable(locale: str) -> str:
    """Lower case with hyphens; empty for what is no language tag, which then falls back."""
    locale = locale.lower().replace("_", "-")
    return locale if _LOCALE.fullmatch(locale) else ""


def _printable(template: str) -> str:
    return template if _NAME.fullmatch(template) else "not a template's name"


def _web_link(value: object) -> str:
    """The value if it is an http or https URL without blanks: what may stand in an href."""
    text = str(value)
    if not re.fullmatch(r"https?://[^\s<>\"\\]+", text):
        raise TemplateError("render_error", "a link is not an http or https URL")
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


def _names_optional(tree: nodes.Template) -> set[str]:
    from jinja2 import nodes  # noqa: PLC0415

    return {
        node.node.name
        for node in tree.find_all((nodes.Filter, nodes.Test))
        if node.name in _FORGIVING and isinstance(node.node, nodes.Name)
    }
