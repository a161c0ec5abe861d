"""What a template declares of its parameters, and what is refused of them, with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates
from postlease.rendering.declared import LONGEST_TEXT, holds_url

if TYPE_CHECKING:
    from pathlib import Path

TOO_LONG = "the text is longer than {} characters"
A_URL = "the text holds a URL, and the template declares none here"
MISSING = "the template needs this parameter"


def welcome(root: Path, declaration: object = None, *, text: str = "Hi", html: str = "Hi") -> Any:
    """A template of one mail, with a template.json where there is a declaration."""
    folder = root / "welcome" / "en"
    folder.mkdir(parents=True)
    for name, source in (("subject.txt", "Hi"), ("body.txt", text), ("body.html", html)):
        (folder / f"{name}.j2").write_text(source, "utf-8")
    if declaration is not None:
        content = declaration if isinstance(declaration, str) else json.dumps(declaration)
        (root / "welcome" / "template.json").write_text(content, "utf-8")
    return Templates(root)


def refusals(templates: Templates, **parameters: Any) -> list[tuple[str, str]]:
    return templates.refusals("welcome", "en", parameters)


def code_at_send(templates: Templates, **parameters: Any) -> str:
    with pytest.raises(TemplateError) as caught:
        templates.render("welcome", "en", parameters)
    return caught.value.code


def test_what_a_message_lacks_is_told_for_each_parameter(tmp_path: Path) -> None:
    templates = welcome(tmp_path, text="{{ name }}{{ total }}{{ tip | default(0) }}")
    assert refusals(templates, name="Ada", total="1") == []
    assert refusals(templates) == [("/parameters/name", MISSING), ("/parameters/total", MISSING)]
    assert code_at_send(templates) == "parameter_missing"


def test_a_text_is_as_long_as_declared_and_ten_thousand_characters_where_nothing_is(
    tmp_path: Path,
) -> None:
    templates = welcome(tmp_path, {"parameters": {"name": {"max_length": 3}}})
    assert refusals(templates, name="Ad\U0001f600", other="x" * LONGEST_TEXT) == []
    assert refusals(templates, name="Adas", other="x" * 10_001) == [
        ("/parameters/name", TOO_LONG.format(3)),
        ("/parameters/other", TOO_LONG.format(10_000)),
    ]
    assert code_at_send(templates, name="Adas") == "text_too_long"


def test_a_declared_length_may_be_greater_than_what_is_usual(tmp_path: Path) -> None:
    templates = welcome(tmp_path, {"parameters": {"report": {"max_length": 20_000}}})
    assert refusals(templates, report="x" * 20_000) == []


@pytest.mark.parametrize(
    "text",
    [
        "evil.example/login",
        "see evil.example/ now",
        "http://evil.example",
        "HTTPS://EVIL.EXAMPLE",
        "x https://1.2.3.4",
        "ftp://evil.example",
        "my+app://evil",
        "www.evil.example",
        "WWW.evil.example",
        "(www.evil.example)",
        "xn--80ak6aa92e.xn--p1ai/login",
        "пример.рф/вход",
        "user@evil.example/login",
        "evil.example:8080/login",
        "evil.example./login",
        "\u0909\u0926\u093e\u0939\u0930\u0923.\u092d\u093e\u0930\u0924/login",
        "evil.example\ufe0f/login",
        "\uff45\uff56\uff49\uff4c\uff0e\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45/login",
        "evil\u3002example/login",
        "ht\u00adtp://evil.example",
        "evil.\u200bexample/login",
    ],
)
def test_a_text_that_looks_like_a_link_is_refused_where_none_is_declared(
    tmp_path: Path, text: str
) -> None:
    """TPL-09."""
    templates = welcome(tmp_path, {"parameters": {"link": {"url": True}}}, text="{{ name }}")
    assert refusals(templates, name=text) == [("/parameters/name", A_URL)]
    assert code_at_send(templates, name=text) == "url_not_declared"
    assert refusals(templates, name="Ada", link=text) == []
    assert refusals(templates, name="Ada", never_shown=text) == [("/parameters/never_shown", A_URL)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ada Lovelace",
        "O'Brien / Smith",
        "and/or",
        "1.5/2.0",
        "24.12.2026/25.12.2026",
        "e.g./i.e.",
        "Booking.com",
        "ada@example.com",
        "a: //b",
        "www",
        "€ 48.50/month",
        "Dr. Who/Companion",
        "C:\\files",
        "Acme Inc./Ltd.",
        "a.b:c/d",
    ],
)
def test_a_text_that_leads_nowhere_certain_is_taken(text: str) -> None:
    assert not holds_url(text)


def test_what_lists_and_objects_hold_is_held_to_the_same_with_its_place(tmp_path: Path) -> None:
    """TPL-09."""
    templates = welcome(tmp_path, {"parameters": {"items": {"max_length": 9}}})
    items = [{"name": "www.evil.example"}, ["ok", "long enough"], {"www.x": 1, "a/b": "www.x.y"}]
    assert refusals(templates, items=items, n=[1, 1.5, None, True]) == [
        ("/parameters/items/0/name", TOO_LONG.format(9)),
        ("/parameters/items/0/name", A_URL),
        ("/parameters/items/1/1", TOO_LONG.format(9)),
        ("/parameters/items/2", A_URL),
        ("/parameters/items/2/a~1b", A_URL),
    ]


def test_a_declaration_covers_all_that_is_beneath_its_parameter(tmp_path: Path) -> None:
    declared = {"parameters": {"items": {"url": True}}}
    templates = welcome(tmp_path, declared)
    assert refusals(templates, items=[{"link": "https://a.example/", "www.x": "www.y"}]) == []


def test_no_refusal_repeats_what_could_be_an_address_or_a_value(tmp_path: Path) -> None:
    templates = welcome(tmp_path)
    told = refusals(templates, people={"ada@example.com": "www.secret.example"})
    assert told == [("/parameters/people/...", A_URL)]
    with pytest.raises(TemplateError) as caught:
        templates.render("welcome", "en", {"people": {"ada@example.com": "www.secret.example"}})
    assert str(caught.value) == f"url_not_declared: welcome, /parameters/people/...: {A_URL}"


def test_at_most_twenty_refusals_are_told(tmp_path: Path) -> None:
    text = "".join("{{ p" + str(n) + " }}" for n in range(30))
    templates = welcome(tmp_path, text=text)
    assert len(refusals(templates)) == 20
    given = {f"p{n}": "www.x.y" for n in range(30)}
    assert len(refusals(templates, **given)) == 20


def test_depth_is_no_way_around(tmp_path: Path) -> None:
    value: object = "www.x.y"
    for _ in range(5000):
        value = [value]
    [(pointer, detail)] = refusals(welcome(tmp_path), deep=value)
    assert pointer == "/parameters/deep" + "/0" * 5000
    assert detail == A_URL


def test_what_only_rendering_tells_is_told_with_its_line(tmp_path: Path) -> None:
    """TPL-01."""
    declared = {"parameters": {"link": {"url": True}}}
    html = '<p>\n{{ order.total + 1 }}\n<a href="{{ link | web_link }}">go</a>'
    templates = welcome(tmp_path, declared, html=html)
    good = {"order": {"total": 1}, "link": "https://a.example/"}
    assert refusals(templates, **good) == []
    line = "the template refuses them: welcome/en/body.html.j2, line {}"
    for changed, said in (
        ({"order": {}}, line.format(2) + ": order.total is undefined"),
        ({"order": {"total": "x"}}, line.format(2) + " (TypeError)"),
    ):
        assert refusals(templates, **(good | changed)) == [("/parameters", said)]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"link": "javascript:alert(1)"}, "/parameters/link"),
        ({"link": ""}, "/parameters/link"),
        ({"link": "", "other": ""}, "/parameters/link"),
        ({"other": ""}, "/parameters"),
        ({"rows": [{"to": "https://a.example/"}, {"to": "a b"}]}, "/parameters/rows/1/to"),
    ],
)
def test_what_is_no_link_is_told_with_its_parameter_where_that_is_certain(
    tmp_path: Path, given: dict[str, object], pointer: str
) -> None:
    html = (
        "<p>\n<a href=\"{{ link | default('') | web_link }}\">go</a>"
        if "rows" not in given
        else '<p>\n{% for row in rows %}<a href="{{ row.to | web_link }}">go</a>{% endfor %}'
    )
    declared = {"parameters": {"link": {"url": True}, "rows": {"url": True}}}
    [(found, detail)] = refusals(welcome(tmp_path, declared, html=html), **given)
    assert found == pointer
    assert detail.endswith("welcome/en/body.html.j2, line 2: a link is not an http or https URL")


def test_a_template_that_is_missing_is_no_fault_of_the_parameters(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="template_missing"):
        welcome(tmp_path).refusals("goodbye", "en", {})
    with pytest.raises(TemplateError, match="template_missing"):
        Templates(tmp_path).declaration("goodbye")


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        ("{\n,", "welcome/template.json, line 2: not JSON"),
        ("[" * 100_000, "welcome/template.json: not JSON"),
        ("[]", "welcome/template.json: not an object"),
        ({"sender": "x"}, "welcome/template.json at /sender: this member is not known"),
        ({"from": 1}, "welcome/template.json at /from: not a text"),
        ({"from": "Shop <shop>"}, "welcome/template.json at /from: an address has the form"),
        ({"reply_to": []}, "welcome/template.json at /reply_to: not a text"),
        ({"reply_to": "x"}, "welcome/template.json at /reply_to: an address has the form"),
        ({"parameters": []}, "welcome/template.json at /parameters: not an object"),
        ({"parameters": {"a": 1}}, "welcome/template.json at /parameters/a: not an object"),
        ({"parameters": {"a": {"b": 1}}}, "at /parameters/a/b: this member is not known"),
        ({"parameters": {"a": {"max_length": 0}}}, "at /parameters/a/max_length: not a number"),
        ({"parameters": {"a": {"max_length": True}}}, "at /parameters/a/max_length: not a number"),
        ({"parameters": {"a": {"max_length": "9"}}}, "at /parameters/a/max_length: not a number"),
        ({"parameters": {"a": {"url": 1}}}, "at /parameters/a/url: neither true nor false"),
    ],
)
def test_a_declaration_that_says_something_else_is_refused_with_its_place(
    tmp_path: Path, declaration: object, said: str
) -> None:
    templates = welcome(tmp_path, declaration)
    with pytest.raises(TemplateError) as caught:
        templates.declaration("welcome")
    assert caught.value.code == "declaration_invalid"
    assert said in str(caught.value)
    assert code_at_send(templates) == "declaration_invalid"


def test_a_template_may_have_a_sender_and_a_reply_to_of_its_own(tmp_path: Path) -> None:
    declared = {"from": '"Ada, Inc." <shop@example.com>', "reply_to": "Care <care@example.com>"}
    declaration = welcome(tmp_path, declared).declaration("welcome")
    assert declaration.sender is not None
    assert (declaration.sender.name, declaration.sender.address) == (
        "Ada, Inc.",
        "shop@example.com",
    )
    assert declaration.reply_to is not None
    assert (declaration.reply_to.name, declaration.reply_to.address) == ("Care", "care@example.com")


def test_our_own_links_are_declared_and_nothing_else_of_the_account_s_mails_may_hold_one() -> None:
    """TPL-09."""
    ours = Templates(SHIPPED)
    declared = {name: ours.declaration(name).parameters for name in ours.names()}
    assert {
        (template, name)
        for template in declared
        for name in declared[template]
        if declared[template][name].url
    } == {(name, "link") for name in ("invitation", "reset_password", "verify_email")}


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (" \t\n", "the subject would be empty"),
        ("a\u2028b", "the subject would hold a control character or a line separator"),
        ("a\x0bb", "the subject would hold a control character or a line separator"),
        ("a\x85b", "the subject would hold a control character or a line separator"),
    ],
)
def test_parameters_that_leave_no_subject_are_refused(
    tmp_path: Path, value: str, detail: str
) -> None:
    """MIM-03, MIM-04: what would fail when it is sent is told when it is asked for."""
    templates = welcome(tmp_path)
    (tmp_path / "welcome" / "en" / "subject.txt.j2").write_text("{{ name }}\n")
    assert refusals(templates, name=value) == [("/parameters", detail)]
    assert refusals(templates, name="a\nBcc: b\r\n") == []
