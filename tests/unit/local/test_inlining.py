"""Styles into elements: what the files say, what stays as it was, what stays in the head."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from local.mails.inlining import InliningError, inline, results
from postlease.rendering import SHIPPED

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """<!DOCTYPE html>
<html lang="{{ locale }}">
<head>
<!--[if mso]><style>td { color: black; }</style><![endif]-->
<style>
p { color: red; margin: 0 }
.big a { font-family: "Segoe UI", serif }
a:hover { color: green }
@media (max-width: 480px) { .big { padding: 0 !important } }
</style>
</head>
<body>
  {% if name %}<p class="big {{ kind }}" style="margin: {{ room }}px">{{ name > 1 }} &amp; <a
     href="{{ link | web_link }}">x</a></p>{% endif %}
  <!--[if mso]><table><tr><td><p><![endif]-->
  <table>{% for item in items %}<tr><td>{{ item }}</td></tr>{% endfor %}</table>
  <img src="cid:logo" alt="">{# <p> #}<br />
</body>
</html>
"""


def test_what_is_shipped_is_what_its_sources_make() -> None:
    made = results(SHIPPED)
    assert {written.path.name for written in made} == {"body.html.j2", "parts.html.j2"}
    assert [str(written.path) for written in made if not written.is_current] == []


def test_each_element_gets_its_styles_and_the_source_stays_as_it_is_otherwise() -> None:
    changed = inline(PAGE)
    expected = PAGE
    for old, new in (
        (
            """style="margin: {{ room }}px">{{ name""",
            """style="color: red;margin: {{ room }}px">{{ name""",
        ),
        (
            """{{ link | web_link }}">x""",
            """{{ link | web_link }}" style="font-family: 'Segoe UI', serif;">x""",
        ),
        ("p { color: red; margin: 0 }\n", ""),
        ('.big a { font-family: "Segoe UI", serif }\n', ""),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert squeezed(changed) == squeezed(expected)


def squeezed(text: str) -> str:
    """Without what the styles' writer may set as it likes."""
    return "".join(text.split()).replace(";}", "}")


def test_what_is_inlined_once_is_inlined_for_good() -> None:
    assert inline(inline(PAGE)) == inline(PAGE)


def test_a_part_s_elements_get_their_styles_wherever_they_stand() -> None:
    sheet = "td { color: red } .row { margin: 0 } li { color: blue } @media print { p { a: b } }"
    part = (
        "{% macro cell(x) %}\n<td>{{ x }}</td>\n{% endmacro %}\n"
        '{% macro row() %}<tr class="row">{{ caller() }}<td>{{ "<li>" }}</td></tr>{% endmacro %}'
        "{% macro item() %}<li>{{ caller() }}</li>{% endmacro %}"
    )
    styled = (
        part.replace("<td>", '<td style="color: red;">')
        .replace('"row"', '"row" style="margin: 0;"')
        .replace("<li>{{ caller", '<li style="color: blue;">{{ caller')
    )
    assert inline(part, sheet) == styled


def test_a_sheet_that_is_linked_goes_into_the_elements_and_what_is_left_into_the_head(
    tmp_path: Path,
) -> None:
    (tmp_path / "style.css").write_text("p { color: red }\n@media print { p { color: blue } }")
    page = '<html><head><link rel="stylesheet" href="style.css"></head><body><p>x</p></body></html>'
    (tmp_path / "body.source.html.j2").write_text(page)
    (tmp_path / "part.source.html.j2").write_text("<p>y</p>")
    body, part = results(tmp_path)
    assert body.path == tmp_path / "body.html.j2"
    assert body.text == (
        "{# Made by `make templates` from body.source.html.j2: change that. #}\n"
        "<html><head><style>\n@media print { p { color: blue } }\n</style></head>"
        '<body><p style="color: red;">x</p></body></html>'
    )
    assert part.text.endswith('<p style="color: red;">y</p>')
    assert not body.is_current
    body.path.write_text(body.text)
    assert body.is_current


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("a:hover { color: green }", "a:hover { color: green }"),
        ("/* a { } */ a:hover{color:green}/* x */", "a:hover {color:green}"),
        ("a, p > a:hover , a:focus { color: green }", "p > a:hover, a:focus { color: green }"),
        ("a::before { content: '}' }", "a::before { content: '}' }"),
        ("a:not(:hover, .b) { color: green }", "a:not(:hover, .b) { color: green }"),
        ("a:visited:first-child { color: green }", "a:visited:first-child { color: green }"),
        ("p:first-child { color: green }", ""),
        ("p:nth-child(2n + 1), p:not(.a, .b) { color: green }", ""),
        ("a[href='mailto:x, y'] { color: green }", ""),
        (".never { color: green }", ""),
        ("@import 'x.css';\np { color: green }", "@import 'x.css';"),
        (
            "@media print { a { b: c } a:hover { b: c } }\na:hover { color: green }",
            "@media print { a { b: c } a:hover { b: c } }\na:hover { color: green }",
        ),
    ],
)
def test_what_of_a_linked_sheet_has_no_element_to_go_to_stays_in_the_head(
    tmp_path: Path, rule: str, left: str
) -> None:
    (tmp_path / "style.css").write_text(f"b {{ margin: 0 }} {rule}")
    page = (
        '<html><head><link rel="stylesheet" href="style.css"></head>'
        "<body><a href='x'>x</a></body></html>"
    )
    (tmp_path / "body.source.html.j2").write_text(page)
    [body] = results(tmp_path)
    assert f"<head><style>\n{left}\n</style></head>" in body.text


def test_a_sheet_that_is_missing_is_told_with_the_file_that_links_it(tmp_path: Path) -> None:
    page = '<html><head><link rel="stylesheet" href="none.css"></head></html>'
    (tmp_path / "body.source.html.j2").write_text(page)
    with pytest.raises(InliningError, match=r"body\.source\.html\.j2: No such file"):
        results(tmp_path)


def test_a_style_that_jinja_writes_stays_as_it_is() -> None:
    page = "<html><head><style>p { color: {{ ink }} }</style></head><body><p>x</p></body></html>"
    assert "<style>p { color: {{ ink }} }</style>" in inline(page)


def test_every_class_of_the_layout_is_used_and_each_of_its_elements_has_its_styles() -> None:
    sheet = re.sub(
        r"/\*.*?\*/", "", (SHIPPED / "_layout" / "style.css").read_text("utf-8"), flags=re.DOTALL
    )
    layout = "".join(written.text for written in results(SHIPPED))
    tags = re.findall(r'<[a-z]\w* [^>]*class="([^"]+)"([^>]*)>', layout)
    used = {name for names, _ in tags for name in names.split()}
    assert used == set(re.findall(r"\.([a-z][a-z-]*)[ ,{]", sheet))
    assert all('style="' in rest for _, rest in tags)
