"""Mustache's placeholders to ours: what each becomes, and what is left to the check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from local.mails import checking, mustache
from local.mails.mustache import Names
from postlease.rendering import Templates

if TYPE_CHECKING:
    from pathlib import Path


IF_O, IF_I = "{% if o | default(false) %}", "{% if i | default(false) %}"


def translated(source: str) -> str:
    names = Names()
    names.add(source)
    return mustache.translated(source, names)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("{{name}} {{ name }}", "{{ name }} {{ name }}"),
        ("{{{name}}}{{&name}}", "{{ name }}{{ name }}"),
        ("{{person.first}}", "{{ person.first }}"),
        ('<a href="{{url}}">', '<a href="{{ url | web_link }}">'),
        ("<img src='{{url}}'>", "<img src='{{ url | web_link }}'>"),
        ('<a href="mailto:{{m}}">', '<a href="mailto:{{ m }}">'),
        ("{{! a\nnote }}x", "\nx"),
        ("{{#on}}yes{{/on}}", "{% if on | default(false) %}yes{% endif %}"),
        ("{{^on}}no{{/on}}", "{% if not on | default(false) %}no{% endif %}"),
        (
            "{{#tags}}{{.}}{{/tags}}",
            "{% for tags_item in tags | default([]) %}{{ tags_item }}{% endfor %}",
        ),
        (
            "{{a}}{{#rows}}{{a}}{{b}}X{{/rows}}",
            "{{ a }}{% for rows_item in rows | default([]) %}{{ a }}{{ rows_item.b }}X{% endfor %}",
        ),
        ("{{#o}}{{#i}}x{{/i}}{{/o}}", f"{IF_O}{IF_I}x{{% endif %}}{{% endif %}}"),
        ("a{%b{#c", 'a{{ "{%" }}b{{ "{#" }}c'),
        ("{{> part}}{{#each x}}{{/x}}{{=<% %>=}}", "{{> part}}{{#each x}}{{/x}}{{=<% %>=}}"),
    ],
)
def test_each_placeholder_has_its_counterpart(theirs: str, ours: str) -> None:
    assert translated(theirs) == ours


def test_a_template_becomes_a_folder_that_renders_from_its_own_sample(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "My-Receipt.html").write_text(
        '<p>{{name}}</p>{{#rows}}<a href="{{link}}">{{label}}</a>{{/rows}}{{^rows}}-{{/rows}}'
    )
    (tmp_path / "in" / "My-Receipt.txt").write_text("\n  Hi {{ name }}  \n{{who.is.it}}")
    (tmp_path / "out").mkdir()
    assert mustache.write(tmp_path / "in", tmp_path / "out") == ["my_receipt"]
    assert checking.check(tmp_path / "out", set()) == []
    home = tmp_path / "out" / "my_receipt"
    sample = json.loads((home / "sample.json").read_text())
    assert sample == {
        "name": "the name",
        "rows": [{"label": "the label", "link": "https://app.example.com/link"}],
        "who": {"is": {"it": "the it"}},
    }
    declared = json.loads((home / "template.json").read_text())
    assert declared == {"parameters": {"rows": {"url": True}}}
    mail = Templates(tmp_path / "out").render("my_receipt", "en", sample)
    assert mail.subject == "Hi the name"
    assert mail.html == ('<p>the name</p><a href="https://app.example.com/link">the label</a>')
    without = {name: value for name, value in sample.items() if name != "rows"}
    assert Templates(tmp_path / "out").render("my_receipt", "en", without).html.endswith("-")


def test_what_has_no_counterpart_is_refused_by_the_check_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for name, html in (
        ("partial", "<p>\n{{! x\n }}\n{{> footer}}</p>"),
        ("helper", "<p>\n{{#each items}}\n</p>"),
        ("open", "{{#rows}}\n{{price}}\n"),
    ):
        (tmp_path / "in" / f"{name}.html").write_text(html)
        (tmp_path / "in" / f"{name}.txt").write_text("Hi")
    (tmp_path / "in" / "alone.html").write_text("x")
    mustache.write(tmp_path / "in", tmp_path / "out")
    told = [
        str(fault).replace(f"{tmp_path}/out/", "")
        for fault in checking.check(tmp_path / "out", set())
    ]
    places = [line.partition(": ")[0] for line in told]
    assert places == [
        "alone/en/body.txt.j2",
        "alone/en/subject.txt.j2",
        "helper/en/body.html.j2:2",
        "open/en/body.html.j2:2",
        "partial/en/body.html.j2:4",
    ]
