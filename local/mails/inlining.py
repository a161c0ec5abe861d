"""Styles into the elements: X.source.html.j2 and its style sheets become X.html.j2.

Many mail programs drop style sheets, so each element carries its own. css-inline says which styles
an element gets; only they are written into the source, which stays as it is otherwise, Jinja and
conditional comments included. What has no element to go to (@media, :hover) stays in the head.

A whole document has its styles in `<style>`, and in a file beside it that it links; a part without
a head (macros) takes the style.css beside it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import css_inline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE, TARGET = ".source.html.j2", ".html.j2"
SHEET = "style.css"

_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_MACRO = re.compile(r"\{%-?\s*macro\b")
_TOKEN = re.compile(
    r"<!--.*?-->"
    r"|<(?P<raw>style|script|title|textarea)\b[^>]*>(?P<content>.*?)</(?P=raw)\s*>"
    r"|<(?P<name>[a-z][\w:-]*)(?P<attributes>(?:\"[^\"]*\"|'[^']*'|[^'\">])*?)(?P<end>\s*/?>)",
    re.DOTALL | re.IGNORECASE,
)
_STYLE = re.compile(r"\sstyle\s*=\s*(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_LINK = re.compile(r"<link\s[^>]*\brel=[\"']stylesheet[\"'][^>]*\bhref=[\"']([\w./-]+)[\"'][^>]*>")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_BORDER = re.compile(_QUOTED.pattern + "|[{};]")
_SELECTOR = re.compile(r"(?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\]|[^,(\[])+")
_STANDING = re.compile(
    r"(?<!:):(?:root|empty|not|is|where|has|(?:first|last|only|nth|nth-last)-(?:child|of-type))"
    r"(?![\w-])"
)
"""Pseudo-classes that say where an element stands: css-inline knows which elements do."""
_WRAPS = {"tr": "<table><tbody>", "td": "<table><tbody><tr>", "th": "<table><tbody><tr>"}
_PLACE = "data-place"
_BASE = "0123456789abcdefghijklmnopqrstuvwxyz"


class InliningError(Exception):
    """A source cannot be inlined; the text is one line and names its file."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file that is made from a source, and what belongs into it."""

    path: Path
    text: str

    @property
    def is_current(self) -> bool:
        """Whether that is what it holds."""
        return self.path.exists() and self.path.read_text("utf-8", "replace") == self.text


def results(folder: Path) -> list[Written]:
    """What each source below folder makes. InliningError where one cannot be."""
    return [
        Written(
            path.with_name(path.name.removesuffix(SOURCE) + TARGET),
            "{# Made by `make templates` from " + path.name + ": change that. #}\n" + _made(path),
        )
        for path in sorted(folder.rglob("*" + SOURCE))
    ]


def _made(path: Path) -> str:
    try:
        source = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InliningError(f"{path}: not UTF-8") from None
    linked = [path.parent / match[1] for match in _LINK.finditer(source)]
    if not _is_document(source) and path.with_name(SHEET).exists():
        linked.append(path.with_name(SHEET))
    try:
        return inline(source, "\n".join(sheet.read_text("utf-8") for sheet in linked))
    except OSError as error:
        raise InliningError(f"{path}: {error.strerror}: a style sheet that it links") from None
    except ValueError as error:
        raise InliningError(f"{path}: {error}") from None


def inline(source: str, sheet: str = "") -> str:
    """source with the styles of sheet and of its own `<style>` in its elements."""
    masks = _masks(source)
    masked = _JINJA.sub(lambda match: masks[match[0]], source)
    tokens = list(_TOKEN.finditer(masked))
    cuts = [] if _is_document(source) else [match.start() for match in _MACRO.finditer(source)]
    styles: dict[int, str] = {}
    rests: list[str] = []
    for begin, end in itertools.pairwise([0, *cuts, len(source)]):
        inside = [token for token in tokens if begin <= token.start() < end]
        found = _Found(_inlined(_marked(masked, begin, end, inside), sheet))
        styles |= found.styles
        rests += found.sheets
    changes = [_styled(token, styles[token.start()]) for token in tokens if token.start() in styles]
    own = [token for token in tokens if (token["raw"] or "").lower() == "style"]
    if len(own) == len(rests):
        changes += [
            (*token.span("content"), f"\n{rest.strip()}\n")
            for token, rest in zip(own, rests, strict=True)
            if not any(mask in token["content"] for mask in masks.values())
        ]
    changes += [
        (*match.span(), f"<style>\n{_left(sheet)}\n</style>") for match in _LINK.finditer(masked)
    ]
    # From the end on, so that the places before stay where they are.
    for begin, end, text in sorted(changes, reverse=True):
        source = source[:begin] + _unmasked(text, masks) + source[end:]
    return source


class _Found(HTMLParser):
    """The styles of each marked element, and what is left of each `<style>`."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.styles: dict[int, str] = {}
        self.sheets: list[str] = []
        self._in_style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "style":
            self.sheets.append("")
        self._in_style = tag == "style"
        if attributes.get(_PLACE) and attributes.get("style"):
            self.styles[int(attributes[_PLACE] or 0)] = attributes["style"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.sheets[-1] += data


def _is_document(source: str) -> bool:
    return re.search("<html", source, re.IGNORECASE) is not None


def _masks(source: str) -> dict[str, str]:
    """A word as long as it for each piece of Jinja: the places of all else stay the same."""
    masks: dict[str, str] = {}
    for match in _JINJA.finditer(source):
        number = len(masks)
        name = "zq" + "".join(_BASE[number // 36**power % 36] for power in (2, 1, 0))
        blank = match[0].startswith("{#")
        masks.setdefault(match[0], (" " if blank else name).ljust(len(match[0]), " x"[not blank]))
    return masks


def _unmasked(text: str, masks: dict[str, str]) -> str:
    for piece, mask in masks.items():
        if mask.strip():
            text = text.replace(mask, piece)
    return text


def _marked(masked: str, begin: int, end: int, tokens: list[re.Match[str]]) -> str:
    """That part of the source as a page in which each element says where it comes from."""
    parts, last, first = [], begin, ""
    for token in tokens:
        if token["name"]:
            first = first or token["name"].lower()
            parts += [masked[last : token.start("end")], f' {_PLACE}="{token.start()}"']
            last = token.start("end")
    text = "".join([*parts, masked[last:end]])
    wrap = _WRAPS.get(first)
    # Text before a row would keep the row out of its table.
    return text if wrap is None else wrap + text[text.index("<") :]


def _inlined(html: str, sheet: str) -> str:
    return css_inline.inline(
        html,
        extra_css=sheet,
        keep_style_tags=True,
        keep_at_rules=True,
        remove_inlined_selectors=True,
        load_remote_stylesheets=False,
    )


def _left(sheet: str) -> str:
    """What of sheet has no element to go to: at-rules, and selectors such as `a:hover`."""
    kept = []
    for prelude, block in _statements(_COMMENT.sub("", sheet)):
        moving = [part.strip() for part in _SELECTOR.findall(prelude) if _moves(part)]
        if prelude.startswith("@"):
            kept.append(f"{prelude} {block}" if block.startswith("{") else prelude + block)
        elif moving:
            kept.append(f"{', '.join(moving)} {block}")
    return "\n".join(kept)


def _moves(selector: str) -> bool:
    """Whether it depends on more than where an element stands."""
    return ":" in _STANDING.sub("", _QUOTED.sub("", selector))


def _statements(sheet: str) -> Iterator[tuple[str, str]]:
    """What stands before each block of the outermost, and the block; `;` where there is none."""
    depth = start = head = 0
    for match in _BORDER.finditer(sheet):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "{" and depth == 1:
            head = match.start()
        elif depth == 0 and match[0] in {"}", ";"}:
            head = head if match[0] == "}" else match.start()
            yield sheet[start:head].strip(), sheet[head : match.end()]
            start = match.end()


def _styled(token: re.Match[str], style: str) -> tuple[int, int, str]:
    """Begin and end of what is to change in a start tag, and its styles."""
    # Single quotes do in CSS what double ones do, and need no escape in an attribute.
    text = f' style="{escape(style.replace(chr(34), chr(39)), quote=False).strip()}"'
    own, start = _STYLE.search(token["attributes"]), token.start("attributes")
    if own:
        return start + own.start(), start + own.end(), text
    return token.start("end"), token.start("end"), text
