"""A template, a language and parameters to a mail; or why that cannot be."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from postlease import mime
from postlease.errors import TemplateError
from postlease.model import RenderedMail
from postlease.rendering.folders import DECLARATION, FALLBACK_LOCALE, FILES, Folders
from postlease.rendering.sources import NotALinkError, NotATextError, NotFitError, Sources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from postlease.rendering.declared import Declaration

_RIGHT_TO_LEFT = frozenset(
    (  # noqa: SIM905 - as a list it would be 20 lines
        "adlm arab ar ckb dv fa he hebr iw ks ku nkoo nqo ps sd syr syrc thaa ug ur yi"
    ).split()
)
"""Languages (ISO 639), and scripts (ISO 15924): a script that a locale names decides."""
_NO_SUBJECT = {
    "empty_subject": "the subject would be empty",
    "invalid_header": "the subject would hold a control character or a line separator",
}
_TOLD = 20
"""So many refusals are enough to see what is wrong."""


class Templates:
    """The templates of some directories; what an earlier directory has hides the later ones'.

    Every file is read once: bytes and version of a mail always belong together, and a changed
    template takes effect in a new process.
    """

    def __init__(self, *directories: Path) -> None:
        self.folders = Folders(*directories)
        self.sources = Sources(self.folders)
        self._declaration = functools.cache(self._read_declaration)

    def names(self) -> list[str]:
        """Every template's name, sorted."""
        return self.folders.names()

    def locales(self, template: str) -> list[str]:
        """The languages that template is written in, sorted; empty for an unknown name."""
        return self.folders.locales(template)

    def locale_for(self, template: str, locale: str) -> str:
        """The language that is used where locale is asked for: pt-BR, then pt, then en."""
        return self.folders.locale_for(template, locale)

    def sample(self, template: str) -> dict[str, Any]:
        """The parameters in the first of template's samples, which is sample.json."""
        return next(iter(self.samples(template).values()))

    def samples(self, template: str) -> dict[str, dict[str, Any]]:
        """Parameters to try template with, by file name: sample.json, sample-<which>.json."""
        return self.folders.samples(template)

    def declaration(self, template: str) -> Declaration:
        """What template's template.json says; the empty one where there is none.

        TemplateError `template_missing`, or `declaration_invalid` with the place.
        """
        if not self.locales(template):
            self.locale_for(template, FALLBACK_LOCALE)
        return self._declaration(template)

    def required_variables(self, template: str, locale: str) -> frozenset[str]:
        """The parameters without which rendering fails, found in the source.

        A name that the source gives a default, or asks for by `is defined`, is not required.
        """
        return self.sources.facts(template, self.locale_for(template, locale)).required

    def version(self, template: str, locale: str) -> str:
        """A short digest over the template's files in this language, with all they extend."""
        return self.sources.facts(template, self.locale_for(template, locale)).version

    def refusals(
        self, template: str, locale: str, parameters: Mapping[str, Any]
    ) -> list[tuple[str, str]]:
        """Why a message with these parameters could not be rendered; empty where it can be.

        Each with the JSON pointer of what to correct (`/parameters/name`) and a sentence that holds
        no value; 20 at most. The last look is to render it. TemplateError `template_missing`,
        and whatever is wrong with the template itself.
        """
        found = self.locale_for(template, locale)
        missing = sorted(self.sources.facts(template, found).required - parameters.keys())
        refused = [(f"/parameters/{name}", "the template needs this parameter") for name in missing]
        texts = self.declaration(template).refusals(parameters)
        refused += [(pointer, detail) for _, pointer, detail in itertools.islice(texts, _TOLD)]
        if not refused:
            try:
                mime.subject(self.render(template, locale, parameters).subject)
            except TemplateError as error:
                what = "it" if error.pointer else "them"
                told = f"the template refuses {what}: {error.detail}"
                detail = _NO_SUBJECT.get(error.code) or told
                refused.append((error.pointer or "/parameters", detail))
        return refused[:_TOLD]

    def render(self, template: str, locale: str, parameters: Mapping[str, Any]) -> RenderedMail:
        """template in locale, filled in. Permanent until the template or the row changes.

        TemplateError `template_missing`, `parameter_missing`, `text_too_long`, `url_not_declared`
        or `render_error`; its text names files, lines and variables, never a value.
        """
        found = self.locale_for(template, locale)
        required, version = self.sources.facts(template, found)
        if missing := sorted(required - parameters.keys()):
            detail = f"{template}/{found} lacks {', '.join(missing)}"
            raise TemplateError("parameter_missing", detail)
        for code, pointer, detail in self.declaration(template).refusals(parameters):
            raise TemplateError(code, f"{template}, {pointer}: {detail}")
        values = {**parameters, "locale": found, "direction": _direction(found)}
        subject, text, html = (self._fill(f"{template}/{found}/{file}", values) for file in FILES)
        return RenderedMail(subject=subject, text=text, html=html, version=version)

    def _fill(self, file: str, values: Mapping[str, Any]) -> str:
        try:
            filled = self.sources.environment().get_template(file).render(values)
            filled.encode()  # half a surrogate (`'%c' % 55296`) is nothing that could be sent
        except TemplateError:
            raise
        except Exception as error:  # noqa: BLE001  a template can raise anything
            raise self._told(file, error, values) from None
        return filled

    def _told(self, file: str, error: Exception, values: Mapping[str, Any]) -> TemplateError:
        """What is said of error: its own text may quote a parameter."""
        from postlease.rendering import telling  # noqa: PLC0415

        came_by = telling.places(error, self.sources)
        inner, line = came_by[-1] if came_by else (file, 0)
        place = f"{inner}, line {line}" if line else file
        trees = self.sources.trees(file)
        pointer = ""
        if isinstance(error, NotFitError):
            pointer = telling.parameter(error, came_by, trees, values)
        if isinstance(error, NotATextError):
            reason = telling.not_a_text(error)
        elif isinstance(error, NotALinkError):
            reason = "a link is not an http or https URL"
        elif name := telling.undefined(error, inner, line, trees):
            reason = f"{name} is undefined"
        else:
            return TemplateError("render_error", f"{place} ({type(error).__name__})")
        return TemplateError("render_error", f"{place}: {reason}", pointer=pointer)

    def _read_declaration(self, template: str) -> Declaration:
        # Whoever fills in nothing does not pay for it.
        from postlease.rendering import declared  # noqa: PLC0415

        file = f"{template}/{DECLARATION}"
        if self.folders.path(file) is None:
            return declared.Declaration()
        return declared.read(self.folders.source(file), file)


def _direction(locale: str) -> str:
    """How a language is written: for the `dir` of a page."""
    language, *parts = locale.lower().replace("_", "-").split("-")
    script = next((part for part in parts if len(part) == 4 and part.isalpha()), language)
    return "rtl" if script in _RIGHT_TO_LEFT else "ltr"
