"""Templates with mustache's placeholders to folders of ours, mechanically and line by line.

    {{name}} {{{name}}} {{&name}}   {{ name }}, escaped: a value never becomes markup here
    href="{{link}}"                 href="{{ link | web_link }}": nothing but http and https
    {{#items}}…{{/items}}           a loop where its inside has names of its own, or `{{.}}`; else a
                                    condition; it may be left out
    {{^items}}…{{/items}}           what is shown where there is nothing
    {{! words }}                    nothing

Names that stand outside of a section too are the message's, all others the item's. What is not in
this list (partials, helpers, other delimiters) stays as it is: the check refuses it with its line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_TAG = re.compile(
    r"\{\{\{\s*(?P<raw>[A-Za-z_][\w.]*)\s*\}\}\}"
    r"|\{\{!(?P<comment>.*?)\}\}"
    r"|\{\{\s*(?P<kind>[#^/&]?)\s*(?P<name>[A-Za-z_][\w.]*|\.)\s*\}\}"
    r"|(?P<ours>(?<!\{)\{[%#])",
    re.DOTALL,
)
_LINK = re.compile(r"\b(?:href|src)\s*=\s*[\"']\Z", re.IGNORECASE)
_URL_NAME = re.compile(r"(?:^|_)(?:url|link|href)s?$", re.IGNORECASE)
_OUTSIDE = "."


@dataclass(slots=True)
class Names:
    """Which names a template uses: outside of sections, and inside of each."""

    outside: set[str] = field(default_factory=set)
    inside: dict[str, set[str]] = field(default_factory=dict)

    def add(self, source: str) -> None:
        """Count the names of one more file of the same template."""
        stack: list[str] = []
        for tag in _TAG.finditer(source):
            name = tag["raw"] or tag["name"]
            if tag["kind"] in {"#", "^"}:
                self.inside.setdefault(name, set())
                stack.append(name if tag["kind"] == "#" else _OUTSIDE)
            elif tag["kind"] == "/":
                if stack:
                    stack.pop()
            elif name:
                section = next((one for one in reversed(stack) if one != _OUTSIDE), None)
                known = self.outside if section is None else self.inside[section]
                known.add(name)

    def own(self, section: str) -> set[str]:
        """The names that belong to a section's items; empty where it is a mere condition."""
        others = {_first(name) for name in self.outside} | self.inside.keys()
        return {name for name in self.inside.get(section, ()) if _first(name) not in others}

    def sample(self) -> dict[str, Any]:
        """A value for everything: a text that says its name, or a URL where the name is of one."""
        values = _values(self.outside - {"."})
        for section in sorted(self.inside):
            own = self.own(section)
            item = _value(section) if own == {"."} else _values(own - {"."})
            values[section] = [item] if own else True
        return values


def folder_name(name: str) -> str:
    """A template's name out of a file's, which has no ending any more."""
    return re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")[:64]


def translated(source: str, names: Names) -> str:
    """source with our placeholders for mustache's; lines stay lines."""
    parts: list[str] = []
    last, stack = 0, list[tuple[str, str]]()
    for tag in _TAG.finditer(source):
        before = source[last : tag.start()]
        parts.append(before)
        last = tag.end()
        name, kind = tag["raw"] or tag["name"], tag["kind"]
        if tag["ours"]:
            parts.append('{{ "' + tag["ours"] + '" }}')
        elif tag["comment"] is not None:
            parts.append("\n" * tag["comment"].count("\n"))
        elif kind == "#" and names.own(name):
            parts.append("{% for " + _item(name) + " in " + name + " | default([]) %}")
            stack.append((name, "endfor"))
        elif kind in {"#", "^"}:
            word = "if not" if kind == "^" else "if"
            parts.append("{% " + word + " " + name + " | default(false) %}")
            stack.append((name, "endif"))
        elif kind == "/" and stack and stack[-1][0] == name:
            parts.append("{% " + stack.pop()[1] + " %}")
        elif kind == "/":
            parts.append(tag[0])
        else:
            loops = [section for section, end in stack if end == "endfor"]
            link = " | web_link" if _LINK.search(before) else ""
            parts.append("{{ " + _place(name, loops, names) + link + " }}")
    return "".join([*parts, source[last:]])


def write(sources: Path, folder: Path) -> list[str]:
    """Each X.html with its X.txt in sources as a template folder; their names.

    The first line of the text is the subject. Names of links may hold URLs.
    """
    written = []
    for html in sorted(sources.glob("*.html")):
        text = html.with_suffix(".txt")
        files = {"body.html.j2": html.read_text("utf-8")}
        if text.exists():
            files["body.txt.j2"] = text.read_text("utf-8")
            first = next(filter(None, map(str.strip, files["body.txt.j2"].splitlines())), "")
            files["subject.txt.j2"] = first
        names = Names()
        for source in files.values():
            names.add(source)
        home = folder / folder_name(html.stem)
        (home / "en").mkdir(parents=True)
        for name, source in files.items():
            (home / "en" / name).write_text(translated(source, names), "utf-8")
        sample = names.sample()
        urls = {name: {"url": True} for name, value in sample.items() if _holds_url(value)}
        (home / "sample.json").write_text(json.dumps(sample, indent=2), "utf-8")
        (home / "template.json").write_text(json.dumps({"parameters": urls}, indent=2), "utf-8")
        written.append(home.name)
    return written


def _place(name: str, loops: list[str], names: Names) -> str:
    for section in reversed(loops):
        if name == ".":
            return _item(section)
        if name in names.own(section):
            return f"{_item(section)}.{name}"
    return name


def _first(name: str) -> str:
    return name.partition(".")[0] or "."


def _values(names: set[str]) -> dict[str, Any]:
    """A value for each name, objects where names have dots."""
    values: dict[str, Any] = {}
    for name in sorted(names):
        *parents, last = name.split(".")
        place = values
        for parent in parents:
            inner = place.get(parent)
            place[parent] = place = inner if isinstance(inner, dict) else {}
        place.setdefault(last, _value(last))
    return values


def _item(section: str) -> str:
    return f"{section.replace('.', '_')}_item"


def _value(name: str) -> str:
    return f"https://app.example.com/{name}" if _URL_NAME.search(name) else f"the {name}"


def _holds_url(value: object) -> bool:
    return "https://" in json.dumps(value)
