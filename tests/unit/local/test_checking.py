"""What is said of templates before anything is sent: file, line, sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from local.mails.checking import check
from local.stack import ROOT
from postlease.rendering import SHIPPED

if TYPE_CHECKING:
    from pathlib import Path

SENDERS = {"shop@example.com"}
GOOD = {
    "en/subject.txt.j2": "Hello {{ name }}",
    "en/body.txt.j2": "Hello\n{{ name }}\n{{ tip | default('') }}",
    "en/body.html.j2": "<p>\n{{ name }}</p>",
    "sample.json": '{"name": "Ada"}',
}


def faults(root: Path, files: dict[str, str | bytes | None]) -> list[str]:
    """What is said of a template that differs in these files from a good one."""
    for name, text in (GOOD | files).items():
        path = root / "welcome" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(fault).replace(f"{root}/", "") for fault in check(root, SENDERS)]


def test_the_shipped_templates_render_in_every_language_from_every_sample() -> None:
    assert check(SHIPPED, set()) == []


def test_a_good_template_has_no_fault_and_may_use_the_shipped_layout(tmp_path: Path) -> None:
    html = (
        "{% extends '_layout/body.html.j2' %}{% block title %}Hi{% endblock %}"
        "{% block preheader %}Hi{% endblock %}{% block content %}{{ name }}{% endblock %}"
        "{% block closing %}Bye{% endblock %}"
    )
    sender = json.dumps({"from": "Shop <Shop@example.com>"})
    assert faults(tmp_path, {"en/body.html.j2": html, "template.json": sender}) == []


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"sample.json": "{}"},
            [
                "welcome/en/subject.txt.j2:1: sample.json lacks name",
            ],
        ),
        (
            {"sample-new.json": '{"tip": "x"}', "en/subject.txt.j2": "Hello"},
            ["welcome/en/body.txt.j2:2: sample-new.json lacks name"],
        ),
        (
            {"en/body.html.j2": "<p>\n{% if %}"},
            ["welcome/en/body.html.j2:2: Expected an expression, got 'end of statement block'"],
        ),
        (
            {"en/body.html.j2": "<p>\n\n{{ name | shout }}"},
            ["welcome/en/body.html.j2:3: there is no filter shout"],
        ),
        (
            {"en/body.html.j2": "{% if false %}\n{{ name | shout }}{% endif %}"},
            ["welcome/en/body.html.j2:2: there is no filter shout"],
        ),
        (
            {"en/body.html.j2": "<p>\n<a\n href='{{ name }}'>x</a>"},
            ["welcome/en/body.html.j2:3: a parameter is a link here: it wants | web_link"],
        ),
        (
            {"en/body.html.j2": "<img src={{ name | upper }}>"},
            ["welcome/en/body.html.j2:1: a parameter is a link here: it wants | web_link"],
        ),
        ({"en/body.html.j2": "<a href='mailto:{{ name }}'>{{ name }}</a>"}, []),
        ({"en/body.html.j2": "{{ name }}<img src='cid:logo' alt=''>"}, []),
        (
            {"en/body.html.j2": "{{ name is loud }}"},
            ["welcome/en/body.html.j2:1: there is no test loud"],
        ),
        (
            {"en/body.txt.j2": "x\n{{ name.first }}"},
            ["welcome/en/body.txt.j2:2: name.first is undefined, with sample.json"],
        ),
        ({"en/body.txt.j2": None}, ["welcome/en/body.txt.j2: is missing"]),
        ({"sample.json": None}, ["welcome/sample.json: is missing"]),
        ({"sample.json": "[]"}, ["welcome/sample.json: is not an object"]),
        ({"sample.json": "{"}, ["welcome/sample.json: is not JSON"]),
        ({"sample.json": "[" * 100_000}, ["welcome/sample.json: is not JSON"]),
        ({"template.json": "[" * 100_000}, ["welcome/template.json: not JSON"]),
        ({"sample.json": b'{"name": "\xe9"}'}, ["welcome/sample.json:1: not UTF-8"]),
        ({"en/body.source.html.j2": b"\xe9"}, ["welcome/en/body.source.html.j2: not UTF-8"]),
        ({"template.json": b'{"from":\n"\xe9"}'}, ["welcome/template.json:2: not UTF-8"]),
        (
            {"en/body.txt.j2": b"\n\nr\xe9sum\xe9 {{ name }}"},
            ["welcome/en/body.txt.j2:3: not UTF-8"],
        ),
        (
            {
                "en/body.txt.j2": "{{ name }}\n{{ range }} {{ dict.x }} {{ range(2) | sum }}",
            },
            [
                "welcome/en/body.txt.j2:2: sample.json lacks dict",
                "welcome/en/body.txt.j2:2: sample.json lacks range",
            ],
        ),
        ({"en/body.txt.j2": "{{ name }} {{ range(2) | sum }} {{ cycler(1).next() }}"}, []),
        ({"en/body.txt.j2": "{{ name }}{% for dict in [1] %}{{ dict }}{% endfor %}"}, []),
        ({"en/body.txt.j2": "{{ name }}{% set joiner = 1 %}{{ joiner }}"}, []),
        (
            {"en/body.html.j2": "{% include 'welcome/en/none.j2' %}"},
            ["welcome/en/none.j2: is missing"],
        ),
        (
            {"en/body.html.j2": "{% include name %}"},
            ["welcome/en/body.html.j2: names a file by a variable"],
        ),
        (
            {"template.json": '{"from": "Other <other@example.com>"}'},
            ["welcome/template.json: the sender is not one of ALLOWED_SENDERS"],
        ),
        (
            {"template.json": '{\n"from": }'},
            ["welcome/template.json:2: not JSON"],
        ),
        (
            {"template.json": '{"sender": "x"}'},
            ["welcome/template.json at /sender: this member is not known"],
        ),
        (
            {
                "template.json": '{"parameters": {"name": {"max_length": 2}}}',
            },
            ["welcome/sample.json: /name: the text is longer than 2 characters"],
        ),
        (
            {"en/subject.txt.j2": " {% if tip is defined %}x{% endif %}"},
            ["welcome/en/subject.txt.j2: nothing is written, with sample.json"],
        ),
        (
            {"sample.json": '{"name": "a\\u0085b"}'},
            ["welcome/en/subject.txt.j2: invalid_header, with sample.json"],
        ),
        ({"sample.json": '{"name": NaN}'}, ["welcome/sample.json: a number is not finite"]),
        (
            {"en/body.source.html.j2": "<p>x</p>"},
            ["welcome/en/body.html.j2: is not what its source makes: make templates"],
        ),
        (
            {"de/subject.txt.j2": "Hallo", "de/body.txt.j2": "{{ name }}"},
            ["welcome/de/body.html.j2: is missing"],
        ),
    ],
)
def test_a_fault_is_told_once_with_its_file_and_line(
    tmp_path: Path, files: dict[str, str | bytes | None], said: list[str]
) -> None:
    assert faults(tmp_path, files) == said


def test_the_faults_that_the_page_shows_are_told_in_one_run(tmp_path: Path) -> None:
    """None of them hides another: of the declaration, of a file, of a sample."""
    faults(
        tmp_path / "templates",
        {
            "template.json": '{"from": "a@example.com", "parameters": {"link": {"url": true}}}',
            "ar/subject.txt.j2": "x",
            "ar/body.txt.j2": "x\n\n{{ name | shout }}",
            "en/subject.txt.j2": "x",
            "en/body.txt.j2": "x\n{{ order.total }}",
            "en/body.html.j2": '<a href="{{ link }}">\n{{ name }}</a>',
            "sample.json": '{"order": {}, "link": "https://shop.example/"}',
            "sample-new.json": '{"order": {}, "link": "https://shop.example/", "name": "Ada"}',
        },
    )
    shown = run("check", str(tmp_path / "templates")).stdout.replace(f"{tmp_path}/", "")
    page = (ROOT / "docs" / "templates.md").read_text("utf-8")
    [written] = re.findall(r"```\n([^`]*check-templates: [^`]*)```", page)
    assert written == shown


def test_a_wrong_declaration_hides_no_fault_of_the_mails(tmp_path: Path) -> None:
    wrong = {"template.json": "{", "en/body.txt.j2": "{{ a | shout }}", "sample.json": "["}
    assert faults(tmp_path, wrong) == [
        "welcome/en/body.txt.j2:1: there is no filter shout",
        "welcome/sample.json: is not JSON",
        "welcome/template.json:1: not JSON",
    ]


def test_a_template_without_english_has_nothing_to_fall_back_to(tmp_path: Path) -> None:
    for name, text in GOOD.items():
        path = tmp_path / "welcome" / name.replace("en/", "de/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    [fault] = check(tmp_path, SENDERS)
    assert str(fault) == f"{tmp_path}/welcome: the language that others fall back to, en, lacks"


def test_a_folder_without_templates_is_a_fault(tmp_path: Path) -> None:
    [fault] = check(tmp_path, SENDERS)
    assert fault.sentence == "there is no template here"


def run(*arguments: str, senders: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "layers/postlease/python")])
    return subprocess.run(
        [sys.executable, "-m", "local.mails", *arguments],
        env=os.environ | {"PYTHONPATH": path, "ALLOWED_SENDERS": senders},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_check_s_status_says_whether_there_is_a_fault(tmp_path: Path) -> None:
    faults(tmp_path, {"template.json": '{"from": "shop@example.com"}'})
    listed = run("check", str(tmp_path), senders="a@example.com, SHOP@example.com")
    assert (listed.returncode, listed.stdout) == (0, "check-templates: templates=1 faults=0\n")
    unlisted = run("check", str(tmp_path))
    assert unlisted.returncode == 1
    assert unlisted.stdout.splitlines() == [
        f"{tmp_path}/welcome/template.json: the sender is not one of ALLOWED_SENDERS",
        "check-templates: templates=1 faults=1",
    ]
    assert run("check", str(tmp_path / "none")).returncode == 1


def test_styles_are_written_into_a_folder_of_one_s_own_once(tmp_path: Path) -> None:
    html = "<html><head><style>p { margin: 0 }</style></head><body><p>{{ name }}</p></body></html>"
    found = faults(tmp_path, {"en/body.source.html.j2": html})
    assert found == ["welcome/en/body.html.j2: is not what its source makes: make templates"]
    target = tmp_path / "welcome" / "en" / "body.html.j2"
    written = run("write", str(tmp_path))
    assert (written.returncode, written.stdout) == (0, f"written: {target}\n")
    assert '<p style="margin: 0;">{{ name }}</p>' in target.read_text("utf-8")
    assert check(tmp_path, SENDERS) == []
    assert run("write", str(tmp_path)).stdout == ""
    (tmp_path / "welcome" / "en" / "body.source.html.j2").write_text(
        '<html><head><link rel="stylesheet" href="no.css"></head></html>'
    )
    refused = run("write", str(tmp_path))
    assert refused.returncode == 1
    assert "body.source.html.j2: No such file" in refused.stderr
