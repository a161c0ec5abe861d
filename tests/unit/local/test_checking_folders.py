"""A folder or a link that the product would not see as its author does is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.mails.checking import check
from postlease.rendering import SHIPPED

if TYPE_CHECKING:
    from pathlib import Path


def said(root: Path, *folders: str, html: str = "<p>x</p>") -> list[str]:
    """What is said of templates in these folders, each of which is whole."""
    for folder in folders:
        path = root / folder
        path.mkdir(parents=True)
        (path / "subject.txt.j2").write_text("x", "utf-8")
        (path / "body.txt.j2").write_text("x", "utf-8")
        (path / "body.html.j2").write_text(html, "utf-8")
        (path.parent / "sample.json").write_text('{"a": "x"}', "utf-8")
    return [str(fault).replace(f"{root}/", "") for fault in check(root, set())]


NO_NAME = "this is no template's name: a to z, 0 to 9 and _, a letter first"


def test_a_folder_that_is_no_template_is_told_of(tmp_path: Path) -> None:
    assert said(tmp_path, "good/en", "Order-Sent/en", "2nd/en") == [
        f"2nd: {NO_NAME}",
        f"Order-Sent: {NO_NAME}",
    ]


def test_the_folder_of_one_template_is_not_taken_for_a_folder_of_templates(tmp_path: Path) -> None:
    """Its languages would be templates without English."""
    said(tmp_path, "good/en", "good/de")
    [fault] = check(tmp_path / "good", set())
    assert str(fault) == (
        f"{tmp_path}/good: this looks like one template: name the folder above it"
    )


def test_what_templates_share_and_what_is_hidden_is_no_template(tmp_path: Path) -> None:
    assert said(tmp_path, "good/en", "_parts/en", ".git/en", "good/_parts", "good/.cache") == []


def test_a_folder_that_is_no_language_is_told_of(tmp_path: Path) -> None:
    assert said(tmp_path, "good/en", "good/de-AT", "good/lang.de") == [
        "good/lang.de: this is no language, such as pt-BR"
    ]


def test_one_language_under_two_names_is_told_of(tmp_path: Path) -> None:
    """One of the two would never be sent."""
    assert said(tmp_path, "good/en", "good/pt-BR", "good/pt_br") == [
        "good/pt_br: the same language as pt-BR"
    ]


def test_the_shipped_folders_are_all_seen() -> None:
    assert check(SHIPPED, set()) == []


@pytest.mark.parametrize(
    "html",
    [
        "<a href='{% if a %}{{ a }}{% endif %}'>x</a>",
        "<a href='{%- if a -%} {{ a }}{% endif %}'>x</a>",
        "<button formaction={{ a }}>x</button>",
        "<video poster='{{ a }}'></video>",
    ],
)
def test_a_link_without_its_filter_is_found_behind_a_statement_too(
    tmp_path: Path, html: str
) -> None:
    [fault] = said(tmp_path, "good/en", html=html)
    assert fault == "good/en/body.html.j2:1: a parameter is a link here: it wants | web_link"
