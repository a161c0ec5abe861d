"""What a parameter is shown as: texts and numbers as they are, all else not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from pathlib import Path

NO_TEXTS = [
    (None, "null"),
    (True, "true or false"),
    (False, "true or false"),
    ({"a": 1}, "an object"),
    (["x"], "a list"),
    ([], "a list"),
]


def welcome(root: Path, text: str, html: str = "Hi") -> Templates:
    folder = root / "welcome" / "en"
    folder.mkdir(parents=True)
    for name, source in (("subject.txt", "Hi"), ("body.txt", text), ("body.html", html)):
        (folder / f"{name}.j2").write_text(source, "utf-8")
    return Templates(root, SHIPPED)


def refusals(templates: Templates, **parameters: Any) -> list[tuple[str, str]]:
    return templates.refusals("welcome", "en", parameters)


def said(kind: str, *, line: int = 1, what: str = "it", file: str = "body.txt.j2") -> str:
    return (
        f"the template refuses {what}: welcome/en/{file}, line {line}: "
        f"{kind} is nothing to show as text"
    )


@pytest.mark.parametrize(("value", "kind"), NO_TEXTS)
@pytest.mark.parametrize(
    "shown",
    [
        "x",
        "x | default('')",
        "x ~ '!'",
        "'!' ~ 1 ~ x",
        "x | upper",
        "x | e",
        "x | string | length",
        "'%s' | format(x)",
        "'%(a)s' | format(a=x)",
        "[1, x] | join(', ')",
        "[{'a': x}] | join(', ', attribute='a')",
        "['a', x] | map('upper') | list | length",
        "'%s' % x",
        "'%s%s' % (1, x)",
    ],
)
def test_what_is_no_text_is_refused_with_the_parameter_s_place_wherever_it_would_become_one(
    tmp_path: Path, shown: str, value: object, kind: str
) -> None:
    templates = welcome(tmp_path, "a\n{{ " + shown + " }}")
    assert refusals(templates, x=value) == [("/parameters/x", said(kind, line=2))]
    with pytest.raises(TemplateError) as caught:
        templates.render("welcome", "en", {"x": value})
    assert caught.value.code == "render_error"
    assert refusals(templates, x="Ada") == []
    assert refusals(templates, x=1.5) == []


@pytest.mark.parametrize("value", [None, True, False])
def test_a_part_of_a_url_is_no_null(tmp_path: Path, value: object) -> None:
    templates = welcome(tmp_path, "{{ x | urlencode }}")
    assert [pointer for pointer, _ in refusals(templates, x=value)] == ["/parameters/x"]
    assert templates.render("welcome", "en", {"x": "a b"}).text == "a%20b"
    assert templates.render("welcome", "en", {"x": {"a": 1}}).text == "a=1"


def test_texts_and_numbers_are_shown_as_they_are(tmp_path: Path) -> None:
    source = "{{ a }} {{ b }} {{ c | upper }} {{ [a, c] | join('+') }} {{ a ~ c }} {{ c | trim }}"
    source += " {{ 17 % (a + 100000) }}{{ '%s-%s' % (a, c) }}{{ '%(a)s' % {'a': b} }}"
    templates = welcome(tmp_path, source, "{{ c ~ a }} {{ [c, '<b>'] | join }}")
    mail = templates.render("welcome", "en", {"a": 1, "b": 2.5, "c": "<x>"})
    assert mail.text == "1 2.5 <X> 1+<x> 1<x> <x> 171-<x>2.5"
    assert mail.html == "&lt;x&gt;1 &lt;x&gt;&lt;b&gt;"


def test_what_is_no_text_may_still_be_asked_for_and_looped_over(tmp_path: Path) -> None:
    source = (
        "{% if a is none %}1{% endif %}{% if b %}2{% endif %}{% if not c %}3{% endif %}"
        "{% for x in d %}{{ x }}{% endfor %}{{ d | length }}{{ e.f }}{{ e | length }}"
        "{% if a %}{{ a }}{% endif %}{{ a or 'none' }}"
    )
    values = {"a": None, "b": True, "c": False, "d": ["4", 5], "e": {"f": 6}}
    assert welcome(tmp_path, source).render("welcome", "en", values).text == "12345261none"


def test_a_value_deeper_down_is_told_with_its_place(tmp_path: Path) -> None:
    templates = welcome(tmp_path, "{% for item in items %}\n{{ item.name }}\n{% endfor %}")
    items = [{"name": "Pen"}, {"name": None}]
    assert refusals(templates, items=items) == [
        ("/parameters/items/1/name", said("null", line=2)),
    ]


def test_of_several_that_are_alike_the_one_that_the_line_names_is_told(tmp_path: Path) -> None:
    templates = welcome(tmp_path, "{{ a }}\n{{ b }}")
    assert refusals(templates, a="x", b=None, c=None) == [("/parameters/b", said("null", line=2))]


def test_where_the_place_is_not_certain_it_is_all_the_parameters(tmp_path: Path) -> None:
    source = "{% for x in [a, b] %}{% if x is not string %}\n{{ x }}\n{% endif %}{% endfor %}"
    templates = welcome(tmp_path, source)
    assert refusals(templates, a=None, b=None) == [
        ("/parameters", said("null", line=2, what="them"))
    ]


def test_a_value_that_a_macro_would_show_is_told_with_the_parameter(tmp_path: Path) -> None:
    html = "{% from '_layout/parts.html.j2' import isolated %}\n{{ isolated(total) }}"
    [(pointer, detail)] = refusals(welcome(tmp_path, "x", html), total=None, tip=None)
    assert pointer == "/parameters/total"
    assert "_layout/parts.html.j2, line " in detail


def test_a_null_in_a_receipt_s_line_reaches_nobody() -> None:
    templates = Templates(SHIPPED)
    parameters = templates.sample("receipt") | {
        "items": [{"quantity": None, "name": "Pen", "price": "1.00"}]
    }
    for locale in templates.locales("receipt"):
        [(pointer, _)] = templates.refusals("receipt", locale, parameters)
        assert pointer == "/parameters/items/0/quantity"
