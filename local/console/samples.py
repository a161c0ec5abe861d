"""The templates: each in every language, filled in from its samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.console import drawing
from local.console.words import cut
from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from local.stack import Stack
    from local.web import Response

MOST_TEXT = 6_000


class Samples:
    """The pages about a stack's templates, read anew each time: whoever edits one sees it."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def names(self) -> list[str]:
        """Every template's name."""
        return self._templates().names()

    def listed(self) -> Response:
        """Every template with its languages and samples."""
        templates = self._templates()
        found = [
            {
                "name": name,
                "locales": templates.locales(name),
                "samples": list(_samples(templates, name)),
            }
            for name in templates.names()
        ]
        return drawing.page("templates", templates=found)

    def shown(self, name: str, locale: str) -> Response:
        """One template in one language, filled in from each of its samples."""
        templates = self._templates()
        if locale not in templates.locales(name):
            return drawing.unknown("There is no such template, or it is not in that language.")
        mails = [
            {"sample": sample, "parameters": parameters, **_filled(templates, name, locale, sample)}
            for sample, parameters in _samples(templates, name).items()
        ]
        locales = templates.locales(name)
        return drawing.page("template", template=name, locale=locale, locales=locales, mails=mails)

    def html(self, name: str, locale: str, sample: str) -> Response:
        """The HTML of one of them."""
        templates = self._templates()
        if locale not in templates.locales(name) or sample not in _samples(templates, name):
            return drawing.unknown("There is no such template, or it has no such sample.")
        filled = _filled(templates, name, locale, sample)
        if filled["error"]:
            return drawing.unknown(f"It cannot be filled in: {filled['error']}", status=400)
        return drawing.mail(filled["html"], "html")

    def _templates(self) -> Templates:
        configured = [
            Path(folder)
            for function in self._stack.functions.values()
            if (folder := function.definition.environment.get("TEMPLATES_DIRECTORY"))
        ]
        return Templates(*configured[:1], SHIPPED)


def _samples(templates: Templates, name: str) -> dict[str, dict[str, Any]]:
    try:
        return templates.samples(name)
    except TemplateError:
        return {}


def _filled(templates: Templates, name: str, locale: str, sample: str) -> dict[str, Any]:
    """The mail's parts, or what keeps the template from being filled in."""
    try:
        mail = templates.render(name, locale, _samples(templates, name)[sample])
    except TemplateError as error:
        return {"error": str(error), "subject": None, "text": None, "html": None}
    subject = " ".join(mail.subject.split())
    return {"error": None, "subject": subject, "text": cut(mail.text, MOST_TEXT), "html": mail.html}
