"""What of some templates would fail at its recipient, told now: file, line, sentence.

Every template is rendered in every language from every sample, so a template without a sample, or
with one that lacks a variable, is a fault too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from local.mails.inlining import InliningError, results
from postlease import mime
from postlease.errors import TemplateError
from postlease.rendering import FALLBACK_LOCALE, SHIPPED, Templates
from postlease.rendering.folders import DECLARATION, FILES, HTML, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path
    from typing import Any

_BARE_LINK = re.compile(
    r"\b(?:href|src|action|formaction|background|poster)\s*=\s*[\"']?\s*"
    r"(?:\{%[^%]*%\}\s*)*\{\{(?![^}]*\bweb_link\b)",
    re.IGNORECASE,
)
_BARE = "a parameter is a link here: it wants | web_link"
_PLACE = re.compile(r"(?P<file>[^\s,:]+), line (?P<line>\d+)(?:: | )?(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What is wrong, and where; line is 0 for a file as a whole."""

    file: str
    line: int
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.sentence}"


def check(folder: Path, senders: Collection[str]) -> list[Fault]:
    """Each fault of the templates in folder once, by file and line.

    senders are the addresses, in lower case, that mail may be from. What folder does not have
    (the layout) is taken from the shipped templates.
    """
    if _is_one_template(folder):
        return [Fault(str(folder), 0, "this looks like one template: name the folder above it")]
    templates = Templates(folder, SHIPPED)
    faults = set(_stale(folder))
    faults |= {_with_path(fault, templates, folder) for fault in _unseen(folder)}
    names = Templates(folder).names()
    if not names:
        faults.add(Fault(str(folder), 0, "there is no template here"))
    for name in names:
        found = _of_one_template(templates, name, senders)
        faults |= {_with_path(fault, templates, folder) for fault in found}
    return sorted(faults)


def _is_one_template(folder: Path) -> bool:
    return any((inner / file).is_file() for inner in _visible(folder) for file in FILES)


def _unseen(folder: Path) -> Iterator[Fault]:
    """Folders that nobody looks into, because of what they are called."""
    templates = Templates(folder)
    seen = set(templates.names())
    for entry in _visible(folder):
        if entry.name not in seen:
            sentence = "this is no template's name: a to z, 0 to 9 and _, a letter first"
            yield Fault(entry.name, 0, sentence)
            continue
        written: dict[str, str] = {}
        for inner in _visible(entry):
            if inner.name not in templates.locales(entry.name):
                yield Fault(f"{entry.name}/{inner.name}", 0, "this is no language, such as pt-BR")
                continue
            same = written.setdefault(inner.name.lower().replace("_", "-"), inner.name)
            if same != inner.name:
                yield Fault(f"{entry.name}/{inner.name}", 0, f"the same language as {same}")


def _visible(folder: Path) -> list[Path]:
    """The folders in folder but those for what templates share, and hidden ones."""
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(e for e in inside if e.is_dir() and e.name[0] not in "._")


def _of_one_template(templates: Templates, name: str, senders: Collection[str]) -> Iterator[Fault]:
    locales = templates.locales(name)
    if FALLBACK_LOCALE not in locales:
        yield Fault(name, 0, f"the language that others fall back to, {FALLBACK_LOCALE}, lacks")
        return
    samples: dict[str, dict[str, Any]] = {}
    is_declared = True
    try:
        sender = templates.declaration(name).sender
        if sender and sender.address.lower() not in senders:
            yield Fault(f"{name}/{DECLARATION}", 0, "the sender is not one of ALLOWED_SENDERS")
    except TemplateError as error:
        is_declared = False
        yield _fault(error)
    try:
        samples = templates.samples(name)
    except TemplateError as error:
        yield _fault(error)
    for locale in locales:
        broken = list(_of_sources(templates, f"{name}/{locale}"))
        yield from broken
        if all(fault.sentence == _BARE for fault in broken):
            yield from _of_mails(templates, name, locale, samples, is_declared=is_declared)


def _of_sources(templates: Templates, folder: str) -> Iterator[Fault]:
    """What is wrong with the files of one language by themselves, each looked at alone."""
    for file in FILES:
        try:
            trees = templates.sources.trees(f"{folder}/{file}")
        except TemplateError as error:
            yield _fault(error)
        else:
            if file == HTML:
                yield from _bare_links(templates, trees)


def _of_mails(
    templates: Templates,
    name: str,
    locale: str,
    samples: dict[str, dict[str, Any]],
    *,
    is_declared: bool,
) -> Iterator[Fault]:
    """What is wrong with what the samples make of one language, whose files all compile."""
    try:
        required = templates.required_variables(name, locale)
    except TemplateError as error:
        yield _fault(error)
        return
    for sample, parameters in samples.items():
        if missing := sorted(required - parameters.keys()):
            for variable in missing:
                file, line = _first_use(templates, name, locale, variable)
                yield Fault(file, line, f"{sample} lacks {variable}")
        elif is_declared:
            yield from _of_one(templates, name, locale, sample, parameters)


def _bare_links(templates: Templates, files: Iterable[str]) -> Iterator[Fault]:
    for found in files:
        source = templates.folders.source(found)
        for match in _BARE_LINK.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            yield Fault(found, line, _BARE)


def _of_one(
    templates: Templates, name: str, locale: str, sample: str, parameters: dict[str, Any]
) -> Iterator[Fault]:
    refused = list(templates.declaration(name).refusals(parameters))
    for _, pointer, detail in refused:
        yield Fault(f"{name}/{sample}", 0, f"{pointer.removeprefix('/parameters')}: {detail}")
    if refused:
        return
    try:
        json.dumps(parameters, allow_nan=False)
        mail = templates.render(name, locale, parameters)
    except ValueError:
        yield Fault(f"{name}/{sample}", 0, "a number is not finite")
        return
    except TemplateError as error:
        fault = _fault(error)
        yield replace(fault, sentence=f"{fault.sentence}, with {sample}")
        return
    empty = [
        file
        for file, text in zip(FILES, (mail.subject, mail.text, mail.html), strict=True)
        if not text.strip()
    ]
    for file in empty:
        yield Fault(f"{name}/{locale}/{file}", 0, f"nothing is written, with {sample}")
    try:
        if SUBJECT not in empty:
            mime.subject(mail.subject)
    except TemplateError as error:
        yield Fault(f"{name}/{locale}/{SUBJECT}", 0, f"{error.code}, with {sample}")


def _first_use(templates: Templates, name: str, locale: str, variable: str) -> tuple[str, int]:
    from jinja2 import nodes  # noqa: PLC0415

    for file in FILES:
        for found, tree in templates.sources.trees(f"{name}/{locale}/{file}").items():
            for node in tree.find_all(nodes.Name):
                if node.name == variable and node.ctx == "load":
                    return found, node.lineno
    return f"{name}/{locale}", 0


def _fault(error: TemplateError) -> Fault:
    """A TemplateError's text taken apart: the file, the line, and what is wrong there."""
    if match := _PLACE.fullmatch(error.detail):
        return Fault(match["file"], int(match["line"]), match["rest"] or error.code)
    file, _, rest = error.detail.partition(": " if ": " in error.detail else " ")
    return Fault(
        file, 0, rest or ("is missing" if error.code == "template_missing" else error.code)
    )


def _with_path(fault: Fault, templates: Templates, folder: Path) -> Fault:
    return replace(fault, file=str(templates.folders.path(fault.file) or folder / fault.file))


def _stale(folder: Path) -> Iterator[Fault]:
    try:
        for written in results(folder):
            if not written.is_current:
                yield Fault(str(written.path), 0, "is not what its source makes: make templates")
    except InliningError as error:
        file, _, rest = str(error).partition(": ")
        yield Fault(file, 0, rest)
