"""File names that no provider carries, in whatever spelling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postlease.errors import TemplateError
from postlease.mime import FORBIDDEN_EXTENSIONS, is_forbidden_filename
from postlease.mime.filenames import shown_filename


def test_the_list_is_the_one_that_ses_publishes() -> None:
    """Of its 90 extensions some of each kind: programs, scripts, shortcuts, databases."""
    assert len(FORBIDDEN_EXTENSIONS) == 90
    assert {"exe", "com", "js", "vbs", "ps1", "lnk", "url", "mdb", "xnk", "ade"} < (
        FORBIDDEN_EXTENSIONS
    )
    assert not FORBIDDEN_EXTENSIONS & {"pdf", "zip", "docx", "html", "png", "svg", "ics", "csv"}


@pytest.mark.parametrize("extension", sorted(FORBIDDEN_EXTENSIONS))
def test_each_extension_is_refused_in_any_case(extension: str) -> None:
    assert is_forbidden_filename(f"a.{extension}")
    assert is_forbidden_filename(f"a.{extension.upper()}")


@pytest.mark.parametrize(
    "name",
    [
        "invoice.pdf.exe",
        "a.exe.",
        "a.exe ",
        "a.exe. . ",
        "a.exe\u00a0",
        "a.exe\u200b",
        "a.e\u200dxe",
        "a.\u061cexe",
        "a.\u180eexe",
        "a.\u202eexe",
        "a.exe\r\n",
        "a.exe\x00",
        "a.\uff45\uff58\uff45",
        "a\uff0eexe",
        "a.exe\u2026",
        ".exe",
        "dir/a.exe",
        "C:\\a.exe",
        "a" * 300 + ".exe",
        "a" * 196 + ".exe" + "b" * 100,
        "=?utf-8?q?a?=.exe",
    ],
)
def test_no_spelling_of_a_forbidden_name_passes(name: str) -> None:
    """ATT-03."""
    assert is_forbidden_filename(name)


@pytest.mark.parametrize(
    "name",
    [
        "invoice.pdf",
        "setup.exe.pdf",
        "exe",
        "a.exe/",
        "a.exes",
        "a.",
        "",
        ".",
        "a.\u0435\u0445\u0435",
        "js.txt",
    ],
)
def test_other_names_pass(name: str) -> None:
    assert not is_forbidden_filename(name)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_a_name_that_passes_is_shown_as_one_that_passes(name: str) -> None:
    """What is cut, stripped or replaced on the way to the reader makes no program of it."""
    if is_forbidden_filename(name):
        return
    try:
        shown = shown_filename(name)
    except TemplateError:
        return
    assert not is_forbidden_filename(shown)
    assert shown.rstrip(". ").rpartition(".")[2].lower() not in FORBIDDEN_EXTENSIONS or (
        "." not in shown.rstrip(". ")
    )
