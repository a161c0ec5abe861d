"""What `make corpus` and `make test-api` would tell, on vectors of our own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from postlease import problems
from postlease.errors import MalformedInputError
from tests.api import __main__ as api
from tests.corpus import addresses, bodies, templates
from tests.e2e.conftest import Answer

ROOT = Path(__file__).parents[2]
PROBLEM = {"content-type": "application/problem+json"}


def refused(pointer: str, detail: str) -> Answer:
    """A 400 as the product makes it."""
    problem = problems.explain(MalformedInputError(pointer, detail))
    return Answer(400, PROBLEM, json.dumps(problem.document()).encode())


UNREADABLE = refused("", "the body is not JSON")
JUDGED = refused("", "the body must be a JSON object")
TWICE = refused("/a", 'the member "a" stands twice')


@pytest.mark.parametrize(
    ("content", "has"),
    [
        (b'{"a": 1, "a": 1}', True),
        (b'[{"b": {"a": 1, "\\u0061": 1}}]', True),
        (b'{"a\\u0000": 1}', True),
        (b'{"a": "\\u0000"}', True),
        (b'["\\u0000"]', True),
        (b'["\\\\u0000"]', False),
        (b'{"a": {"a": 1}}', False),
    ],
)
def test_a_body_of_two_meanings_is_known(content: bytes, has: bool) -> None:
    assert bodies.has_two_meanings(content) is has


@pytest.mark.parametrize(
    ("name", "content", "answer", "is_wrong"),
    [
        ("n_a.json", b"[", UNREADABLE, False),
        ("n_a.json", b"[", JUDGED, True),
        ("n_a.json", b"[", Answer(413, PROBLEM, b'{"type": "x:payload-too-large"}'), True),
        ("n_a.json", b"[", Answer(500, PROBLEM, b'{"type": "x:internal-error"}'), True),
        ("n_a.json", b"[", Answer(400, {}, b"{}"), True),
        ("y_a.json", b"[]", JUDGED, False),
        ("y_a.json", b"[]", UNREADABLE, True),
        ("y_a.json", b"[]", Answer(202, {}, b"{}"), True),
        ("y_a.json", b'{"a": 1, "a": 2}', TWICE, False),
        ("y_a.json", b'{"a": 1, "a": 2}', refused("", "the body stands twice"), True),
        ("y_a.json", b'{"a": 1, "a": 2}', JUDGED, True),
        ("y_a.json", b"[]", TWICE, True),
    ],
)
def test_a_body_s_answer_is_right_or_wrong(
    tmp_path: Path, name: str, content: bytes, answer: Answer, is_wrong: bool
) -> None:
    tmp_path.joinpath(name).write_bytes(content)
    counts, wrong = bodies.run(tmp_path, lambda body: answer)
    assert counts.total() == 1
    assert bool(wrong) is is_wrong


ADDRESSES = """<tests>
<test id="1"><address>a@b.example</address><category>ISEMAIL_VALID_CATEGORY</category></test>
<test id="2"><address>&#x240D;a</address><category>ISEMAIL_ERR</category></test>
<test id="3"><address>"a"@b.example</address><category>ISEMAIL_RFC5321</category></test>
</tests>"""


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("| 3 | refused | why |", []),
        ("", ["address 3: refused here, not in the table"]),
        ("| 3 | accepted | why |", ["address 3: refused here, accepted in the table"]),
        ("| 1, 3 | refused | why |", ["address 1: no difference here, refused in the table"]),
    ],
)
def test_each_verdict_that_differs_must_stand_in_the_table_and_no_other(
    tmp_path: Path, page: str, wrong: list[str]
) -> None:
    sent = []

    def send(value: dict[str, str]) -> Answer:
        sent.append(value["email"])
        return Answer(202 if value["email"] == "a@b.example" else 422, {}, b"")

    file = tmp_path / "tests.xml"
    file.write_text(ADDRESSES)
    counts, found = addresses.run(file, page, send)
    assert found == wrong
    assert sent == ["a@b.example", "\ra", '"a"@b.example']
    assert counts.total() == 3


def test_an_address_that_breaks_the_product_is_told(tmp_path: Path) -> None:
    file = tmp_path / "tests.xml"
    file.write_text(ADDRESSES)
    _, wrong = addresses.run(file, "", lambda value: Answer(500, {}, b""))
    assert "address 1: answered 500" in wrong


def test_the_page_has_rows_each_number_once() -> None:
    page = (ROOT / "docs" / "addresses.md").read_text("utf-8")
    numbers = [n for row, _ in addresses._ROW.findall(page) for n in row.split(",")]
    assert len(numbers) == len(set(numbers)) == len(addresses.table(page)) == 41


DESCRIPTION: dict[str, Any] = {"paths": {"/a": {"get": {"responses": {"200": {}, "404": {}}}}}}


@pytest.mark.parametrize(
    ("answers", "status", "examples", "told"),
    [
        ({200: 99, 429: 1}, 0, 100, 0),
        ({200: 99, 429: 1}, 1, 100, 1),
        ({200: 99, 429: 1}, 0, 101, 1),
        ({200: 98, 429: 2}, 0, 100, 1),
        ({200: 99, 500: 1}, 0, 100, 1),
        ({200: 9, 404: 91}, 0, 100, 1),
        ({200: 10, 404: 90}, 0, 100, 0),
    ],
)
def test_each_figure_of_the_description_s_test_counts(
    answers: dict[int, int], status: int, examples: int, told: int
) -> None:
    counts = Counter({("GET /a", code, ""): number for code, number in answers.items()})
    assert api.tell(DESCRIPTION, counts, status=status, examples=examples, least=10) == told


def test_a_corpus_of_templates_is_told_by_what_became_of_each(tmp_path: Path) -> None:
    sources, folder = tmp_path / "in", tmp_path / "out"
    sources.mkdir()
    folder.mkdir()
    for name, html in (
        ("good", "{{name}}"),
        ("other", "x"),
        ("gone", "x"),
        ("broken", "\n{{> a}}"),
    ):
        (sources / f"{name}.html").write_text(html)
        (sources / f"{name}.txt").write_text("Hi")
    good, refused, faults = templates.prepare(sources, folder)
    assert (good, refused) == (["gone", "good", "other"], ["broken"])
    [fault] = faults
    assert fault.startswith("broken/en/body.html.j2:2: ")
    sent: list[dict[str, Any]] = []

    def send(body: dict[str, Any]) -> Answer:
        sent.append(body)
        return Answer(422 if body["template"] == "gone" else 202, {}, b"{}")

    def inbox() -> list[dict[str, Any]]:
        mail = {"subject": "Hi", "text": "Hi\n", "html": "the name\n"}
        return [mail | {"to": body["to"]} for body in sent if body["template"] != "gone"]

    counts, wrong = templates.run(folder, good, send, inbox)
    assert counts == {"template: sent and read back": 2}
    assert wrong == [
        "template gone: answered 422",
        "template gone: not in the inbox",
        "template other: another html in the inbox",
    ]
    assert sent[1]["parameters"] == {"name": "the name"}
    assert templates.prepare(tmp_path, tmp_path / "empty") == ([], [], [])
