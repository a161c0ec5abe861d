"""The layout's colours can be read, in the light and in the dark."""

from __future__ import annotations

import re

import pytest

from postlease.rendering import SHIPPED

SHEET = (SHIPPED / "_layout" / "style.css").read_text("utf-8")
LIGHT, _, DARK = SHEET.partition("@media (prefers-color-scheme: dark)")
_RULE = re.compile(r"([^{}/]+)\{([^{}]*)\}")
_COLOR = re.compile(r"(?<![\w-])(color|background-color|border-color): (#[0-9a-f]{6})")

READ_ON = [
    (".ink", ".card"),
    (".quiet", ".card"),
    (".link a", ".card"),
    (".ink", ".tint"),
    (".button a", ".button td"),
]
"""What is written on what."""


def colors(part: str) -> dict[tuple[str, str], str]:
    """By selector and property."""
    return {
        (selector.strip(), name): value
        for selectors, body in _RULE.findall(part)
        for selector in selectors.split(",")
        for name, value in _COLOR.findall(body)
    }


SCHEMES = {"light": colors(LIGHT), "dark": colors(LIGHT) | colors(DARK)}


def luminance(color: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_contrast_is_reckoned_as_the_standard_does() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("text", "ground"), READ_ON)
def test_what_is_written_can_be_read(scheme: str, text: str, ground: str) -> None:
    found = SCHEMES[scheme]
    ratio = contrast(found[text, "color"], found[ground, "background-color"])
    assert ratio >= 4.5, f"{text} on {ground} in the {scheme}: {ratio:.2f}"


def test_every_colour_has_its_counterpart_for_the_dark() -> None:
    """White on the button's blue is the one that both share."""
    light, dark = colors(LIGHT), colors(DARK)
    assert set(light) - set(dark) == {(".button a", "color")}
    assert set(dark) <= set(light)
    assert all(
        text in dict.fromkeys(t for t, _ in READ_ON) for text, name in light if name == "color"
    )


def test_only_what_is_important_overrides_a_style_in_its_element() -> None:
    media = SHEET[SHEET.index("\n@media") :]
    rules = re.findall(r"\{ ([^{}]+) \}", media)
    assert len(rules) > 8
    for declaration in "".join(rules).split(";"):
        assert not declaration.strip() or declaration.endswith("!important"), declaration
