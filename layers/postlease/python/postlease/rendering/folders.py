"""Which templates, languages, files and samples there are; nothing here knows Jinja."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postlease.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIPPED = Path(__file__).parents[1] / "templates"
FALLBACK_LOCALE = "en"

SUBJECT, TEXT, HTML = FILES = ("subject.txt.j2", "body.txt.j2", "body.html.j2")
DECLARATION = "template.json"
_SAMPLES = ("sample.json", "sample-*.json")  # shown in this order
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LOCALE = re.compile(r"[a-z]{2,8}([-_][a-z0-9]{1,8}){0,4}")


class Folders:
    """The files of some directories; what an earlier directory has hides the later ones'.

    Every file is read once: a changed one takes effect in a new process.
    """

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self.source = functools.cache(self._read)
        # Bounded: what producers ask for need not exist.
        self._locales = functools.lru_cache(256)(self._find_locales)

    def names(self) -> list[str]:
        """Every template's name, sorted."""
        found = {entry.name for root in self._directories for entry in _folders(root)}
        return sorted(name for name in found if _NAME.fullmatch(name))

    def locales(self, template: str) -> list[str]:
        """The languages that template is written in, sorted; empty for an unknown name."""
        return list(self._locales(template))

    def locale_for(self, template: str, locale: str) -> str:
        """The language that is used where locale is asked for: pt-BR, then pt, then en."""
        written = {_comparable(name): name for name in self._locales(template)}
        asked = _comparable(locale)
        while asked:
            if asked in written:
                return written[asked]
            asked = asked.rpartition("-")[0]
        if FALLBACK_LOCALE not in written:
            shown = template if _NAME.fullmatch(template) else "not a template's name"
            raise TemplateError("template_missing", shown)
        return written[FALLBACK_LOCALE]

    def samples(self, template: str) -> dict[str, dict[str, Any]]:
        """Parameters to try template with, by file name; the first directory's that has some."""
        self.locale_for(template, FALLBACK_LOCALE)
        for root in self._directories:
            paths = [path for name in _SAMPLES for path in sorted((root / template).glob(name))]
            if paths:
                return {path.name: self._sample(f"{template}/{path.name}") for path in paths}
        raise TemplateError("template_missing", f"{template}/sample.json")

    def path(self, file: str) -> Path | None:
        """Where file is; None where it is in none of the directories."""
        if not all(_is_plain(part) for part in file.split("/")):
            return None
        return next((root / file for root in self._directories if (root / file).is_file()), None)

    def _find_locales(self, template: str) -> tuple[str, ...]:
        if not _NAME.fullmatch(template):
            return ()
        found = {entry.name for root in self._directories for entry in _folders(root / template)}
        return tuple(sorted(name for name in found if _LOCALE.fullmatch(name.lower())))

    def _sample(self, file: str) -> dict[str, Any]:
        try:
            sample = json.loads(self.source(file))
        except (ValueError, RecursionError):
            raise TemplateError("template_missing", f"{file} is not JSON") from None
        if not isinstance(sample, dict):
            raise TemplateError("template_missing", f"{file} is not an object")
        return sample

    def _read(self, file: str) -> str:
        if (path := self.path(file)) is None:
            raise TemplateError("template_missing", file)
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise TemplateError("render_error", f"{file}, line {line}: not UTF-8") from None


def _is_plain(part: str) -> bool:
    """Whether a path stays where it is: a template may name no file outside of its directory."""
    return part not in {"", ".", ".."} and "\\" not in part and "\0" not in part


def _folders(root: Path) -> Iterator[Path]:
    return (entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else iter(())


def _comparable(locale: str) -> str:
    """Lower case with hyphens; empty for what is no language tag, which then falls back."""
    locale = locale.lower().replace("_", "-")
    return locale if _LOCALE.fullmatch(locale) else ""
