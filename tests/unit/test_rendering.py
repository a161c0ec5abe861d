"""Templates: what is found, what is filled in, what is refused, and that ours are fit to send."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from postlease import rendering
from postlease.config import settings
from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from pathlib import Path

OURS = Templates(SHIPPED)
EVERY_MAIL = [(name, locale) for name in OURS.names() for locale in OURS.locales(name)]
HOSTILE = '<a href="//evil.example">Reset</a><img src=x onerror=x>\'">\u00e9'


class Page(HTMLParser):
    """What a reader's program sees in a page: elements, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.title = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["title"]:
            self.title += data
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def write(root: Path, files: dict[str, str]) -> Templates:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Templates(root)


def one(
    root: Path,
    *,
    subject: str = "Hi",
    text: str = "Hi",
    html: str = "<p>Hi</p>",
    locale: str = "en",
    name: str = "welcome",
) -> Templates:
    folder = f"{name}/{locale}"
    return write(
        root,
        {
            f"{folder}/subject.txt.j2": subject,
            f"{folder}/body.txt.j2": text,
            f"{folder}/body.html.j2": html,
        },
    )


def refused(templates: Templates, parameters: dict[str, object], name: str = "welcome") -> str:
    """Render, expect a refusal, and return its text; the code stands first in it."""
    with pytest.raises(TemplateError) as caught:
        templates.render(name, "en", parameters)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert caught.value.code in str(caught.value)
    return str(caught.value)


def test_the_shipped_mails_are_there_in_english_german_and_arabic() -> None:
    shipped = (
        "account_exists",
        "invitation",
        "password_changed",
        "receipt",
        "reset_password",
        "verify_email",
    )
    assert [(name, locale) for name in shipped for locale in ("ar", "de", "en")] == EVERY_MAIL


@pytest.mark.parametrize(
    ("locale", "word"), [("en", "to confirm it"), ("de", "bestätigen"), ("ar", "تأكيده")]
)
def test_the_mail_to_an_account_that_exists_fits_whoever_asked_to_confirm_again(
    locale: str, word: str
) -> None:
    """A sign-up and a request for the verification mail both end in it."""
    mail = OURS.render("account_exists", locale, {})
    assert word in mail.text
    assert word in mail.html


@pytest.mark.parametrize(("name", "locale"), EVERY_MAIL)
def test_a_shipped_mail_renders_from_each_sample_and_says_the_same_in_text_and_html(
    name: str, locale: str
) -> None:
    for sample in OURS.samples(name).values():
        mail = OURS.render(name, locale, sample)
        page = Page(mail.html)
        assert page.open == []
        assert mail.subject.strip()
        for value in leaves(sample):
            assert value in mail.text
            assert value in page.text
        for body in (mail.subject, mail.text, mail.html):
            assert "{{" not in body
            assert "None" not in body
    assert OURS.required_variables(name, locale) == OURS.sample(name).keys()


def leaves(value: object) -> list[str]:
    """Each text and number in value, as a mail shows it."""
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [str(value)]


@pytest.mark.parametrize(("name", "locale"), EVERY_MAIL)
def test_a_shipped_mail_is_readable_on_a_phone_in_the_dark_and_fetches_nothing(
    name: str, locale: str
) -> None:
    for sample in OURS.samples(name).values():
        mail = OURS.render(name, locale, sample)
        page = Page(mail.html)
        assert page.all("html")[0]["lang"] == locale
        assert page.title.strip()
        named = {meta.get("name"): meta.get("content") for meta in page.all("meta")}
        assert named["viewport"] == "width=device-width, initial-scale=1"
        assert named["color-scheme"] == "light dark"
        assert "prefers-color-scheme: dark" in mail.html
        assert "max-width: 600px" in mail.html
        for tag in ("img", "link", "script", "iframe", "form", "video", "object"):
            assert page.all(tag) == []
        assert "url(" not in mail.html
        assert "@import" not in mail.html
        assert all(table["role"] == "presentation" for table in page.all("table"))
        assert {anchor["href"] for anchor in page.all("a")} <= set(leaves(sample))
        assert all(len(line) <= 76 for line in mail.text.splitlines() if "https:" not in line)
        assert len(mail.html) < 20_000


@pytest.mark.parametrize(("name", "locale"), EVERY_MAIL)
def test_a_shipped_mail_runs_as_its_language_does(name: str, locale: str) -> None:
    here, start, end = ("rtl", "right", "left") if locale == "ar" else ("ltr", "left", "right")
    page = Page(OURS.render(name, locale, OURS.sample(name)).html)
    assert {page.all(tag)[0]["dir"] for tag in ("html", "body", "table")} == {here}
    [card] = [cell for cell in page.all("td") if cell.get("class") == "card"]
    assert card["align"] == start
    values = [cell for cell in page.all("td") if "value" in cell.get("class", "")]
    assert {cell["align"] for cell in values} <= {end}
    # A link and a value keep their own direction.
    assert all(anchor["dir"] == "ltr" for anchor in page.all("a") if "http" in anchor["href"][9:])
    assert all(span["dir"] == "auto" for span in page.all("span"))


@pytest.mark.parametrize(
    ("locale", "direction"),
    [
        ("ar-EG", "rtl"),
        ("he_IL", "rtl"),
        ("ckb", "rtl"),
        ("pa-Arab-PK", "rtl"),
        ("az_arab", "rtl"),
        ("pa-IN", "ltr"),
        ("ks-Deva", "ltr"),
        ("ar-Latn", "ltr"),
        ("pt-BR", "ltr"),
        ("de-1996", "ltr"),
    ],
)
def test_the_script_that_a_locale_names_or_else_its_language_says_how_it_runs(
    tmp_path: Path, locale: str, direction: str
) -> None:
    templates = one(tmp_path, locale=locale, text="{{ direction }}")
    assert templates.render("welcome", locale, {}).text == direction


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (1, "دقيقة واحدة"),
        (2, "دقيقتين"),
        (3, "3 دقائق"),
        (10, "10 دقائق"),
        (11, "11 دقيقة"),
        (60, "ساعة واحدة"),
        (99, "99 دقيقة"),
        (101, "101 دقيقة"),
        (103, "103 دقائق"),
        (120, "ساعتين"),
        (180, "3 ساعات"),
        (660, "11 ساعة"),
    ],
)
def test_arabic_counts_in_all_its_forms(minutes: int, said: str) -> None:
    sample = OURS.sample("reset_password")
    mail = OURS.render("reset_password", "ar", sample | {"valid_minutes": minutes})
    assert f"لمدة {said}." in mail.text
    assert f"لمدة <strong>{said}</strong>." in mail.html


def test_a_value_among_arabic_words_is_kept_apart_from_them() -> None:
    """Without the marks 2026-004711 would be shown as 004711-2026."""
    mail = OURS.render("receipt", "ar", OURS.sample("receipt"))
    for body in (mail.subject, mail.text):
        assert "\u20682026-004711\u2069" in body


@pytest.mark.parametrize(
    ("locale", "day", "hour"),
    [
        ("en", "24 hours", "1 hour"),
        ("de", "24 Stunden", "1 Stunde"),
        ("ar", "24 ساعة", "ساعة واحدة"),
    ],
)
def test_the_verification_mail_says_how_long_its_link_works(
    locale: str, day: str, hour: str
) -> None:
    sample = OURS.sample("verify_email")
    mail = OURS.render("verify_email", locale, sample)
    assert day in mail.text
    assert day in mail.html
    shorter = OURS.render("verify_email", locale, sample | {"valid_hours": 1})
    for body in (shorter.text, shorter.html):
        assert re.search(rf"\b{hour}\b", body)
        assert day not in body


@pytest.mark.parametrize(
    ("locale", "said"), [("en", "10 minutes"), ("de", "10 Minuten"), ("ar", "10 دقائق")]
)
def test_the_verification_mail_shows_a_code_where_there_is_one(locale: str, said: str) -> None:
    sample = OURS.sample("verify_email")
    without = OURS.render("verify_email", locale, sample)
    mail = OURS.render("verify_email", locale, sample | {"code": "042137"})
    for body in (mail.text, Page(mail.html).text):
        assert "042137" in body
        assert said in body
        assert sample["link"] in body
    for body in (without.text, Page(without.html).text):
        assert said not in body
        assert "ode" not in re.findall(r"\b[Cc](ode)\b", body)


@pytest.mark.parametrize(
    ("locale", "minutes", "said"),
    [
        ("en", 15, "15 minutes"),
        ("en", 60, "1 hour"),
        ("en", 90, "90 minutes"),
        ("en", 120, "2 hours"),
        ("de", 15, "15 Minuten"),
        ("de", 60, "1 Stunde"),
        ("de", 120, "2 Stunden"),
    ],
)
def test_the_mail_for_a_reset_says_how_long_its_link_works(
    locale: str, minutes: int, said: str
) -> None:
    sample = OURS.sample("reset_password")
    mail = OURS.render("reset_password", locale, sample | {"valid_minutes": minutes})
    for body in (mail.text, mail.html):
        assert re.search(rf"\b{said}\b", body)


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "https://a b",
        "",
        'https://"',
        "https:///x",
        "https://bank.example@evil.example/",
        "https://bank.example:x@evil.example",
        "https://a\u202e.example/",
        "https://a.example/\u200b",
        "https://a.example/\0",
    ],
)
def test_a_link_that_is_not_a_web_address_is_refused(link: str) -> None:
    """TPL-01."""
    assert refused(OURS, {"link": link}, "verify_email").startswith("render_error")


@pytest.mark.parametrize(
    "link",
    [
        "http://a.example?b=c@d#e",
        "https://a.example:8080/@b?c#d",
        "https://пример.рф/путь",
        "http://[::1]/",
    ],
)
def test_a_web_address_is_taken_as_it_is(tmp_path: Path, link: str) -> None:
    declared = '{"parameters": {"a": {"url": true}}}'
    (tmp_path / "welcome").mkdir()
    (tmp_path / "welcome" / "template.json").write_text(declared, "utf-8")
    templates = one(tmp_path, html='<a href="{{ a | web_link }}">x</a>')
    page = Page(templates.render("welcome", "en", {"a": link}).html)
    assert page.elements == [("a", {"href": link})]


def test_a_value_never_becomes_markup_and_text_shows_it_as_it_is() -> None:
    """TPL-01."""
    plain = Page(OURS.render("receipt", "en", OURS.sample("receipt")).html)
    mail = OURS.render("receipt", "en", {"order_number": HOSTILE, "total": HOSTILE})
    page = Page(mail.html)
    assert page.elements == plain.elements
    assert HOSTILE in page.text
    assert HOSTILE in mail.text
    assert HOSTILE in mail.subject


def test_a_value_cannot_leave_its_attribute(tmp_path: Path) -> None:
    """TPL-01."""
    templates = one(tmp_path, html='<p title="{{ a }}">x</p>')
    page = Page(templates.render("welcome", "en", {"a": HOSTILE}).html)
    assert page.elements == [("p", {"title": HOSTILE})]


@pytest.mark.parametrize("name", ["safe", "urlize"])
def test_no_filter_makes_markup_of_a_value(tmp_path: Path, name: str) -> None:
    """TPL-01."""
    templates = one(tmp_path, html="{% if a == 'no' %}{{ a | " + name + " }}{% endif %}")
    assert refused(templates, {"a": "yes"}).endswith(f"line 1: there is no filter {name}")


@pytest.mark.parametrize("switch", ["false", "a == 'no'", "true"])
def test_no_block_switches_the_escaping_off(tmp_path: Path, switch: str) -> None:
    """TPL-01."""
    html = "<p>\n{% autoescape " + switch + " %}{{ a }}{% endautoescape %}"
    said = refused(one(tmp_path, html=html), {"a": HOSTILE})
    assert said.endswith("body.html.j2, line 2: autoescape cannot be switched")


@pytest.mark.parametrize(
    "source",
    [
        "{% if a %}" * 500 + "{% endif %}" * 500,
        "{{ " + "(" * 3000 + "a" + ")" * 3000 + " }}",
        "{{ " + "a and " * 360 + "a }}",
    ],
)
def test_a_template_that_is_nested_too_deep_is_refused_by_its_file(
    tmp_path: Path, source: str
) -> None:
    said = refused(one(tmp_path, text=source), {"a": "yes"})
    assert said.endswith("body.txt.j2 is nested too deep")


def test_a_value_is_never_compiled(tmp_path: Path) -> None:
    templates = one(tmp_path, subject="{{ a }}", text="{{ a }}", html="{{ a }}")
    mail = templates.render("welcome", "en", {"a": "{{ 7 * 6 }}{% raw %}"})
    assert mail.subject == mail.text == mail.html == "{{ 7 * 6 }}{% raw %}"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("en", "en"),
        ("de", "de"),
        ("de-AT", "de"),
        ("DE_de", "de"),
        ("pt-BR", "pt-BR"),
        ("PT-br", "pt-BR"),
        ("pt-BR-x-a", "pt-BR"),
        ("pt-PT", "pt"),
        ("fr", "en"),
        ("", "en"),
        ("../de", "en"),
        ("de/../../x", "en"),
        ("d\x00e", "en"),
    ],
)
def test_a_language_falls_back_to_its_parent_and_then_to_english(
    tmp_path: Path, asked: str, found: str
) -> None:
    for locale in ("en", "de", "pt", "pt-BR"):
        templates = one(tmp_path, locale=locale, text="{{ locale }}")
    assert templates.render("welcome", asked, {"locale": "xx"}).text == found


@pytest.mark.parametrize(
    "name", ["goodbye", "../secrets", "", "_layout", "Welcome", "a" * 65, "a\n"]
)
def test_an_unknown_template_is_missing(tmp_path: Path, name: str) -> None:
    templates = one(tmp_path)
    write(tmp_path, {"_layout/en/subject.txt.j2": "x"})
    assert refused(templates, {}, name).startswith("template_missing")
    assert templates.locales(name) == []


def test_a_template_that_lacks_english_or_a_file_is_missing(tmp_path: Path) -> None:
    templates = one(tmp_path, locale="de")
    assert templates.render("welcome", "de", {}).text == "Hi"
    assert refused(templates, {}) == "template_missing: welcome"
    templates = one(tmp_path, html="{% extends 'nowhere.j2' %}")
    assert refused(templates, {}) == "template_missing: nowhere.j2"
    (tmp_path / "welcome/en/body.txt.j2").unlink()
    assert refused(Templates(tmp_path), {}) == "template_missing: welcome/en/body.txt.j2"


def test_the_variables_that_a_template_needs_are_found_in_its_source_and_in_all_it_draws_on(
    tmp_path: Path,
) -> None:
    templates = one(
        tmp_path,
        subject="{{ order.number }}",
        text="{% set a = first %}{% set b, c = 1, 2 %}{% set d %}x{% endset %}"
        "{{ a }}{{ b }}{{ c }}{{ d }}{% for item in items %}{{ item }}{% endfor %}",
        html="{% extends 'layout.html.j2' %}{% import 'parts.html.j2' as parts %}"
        "{% from 'parts.html.j2' import bold, bold as strong %}{% macro mine() %}{% endmacro %}"
        "{% set shown = 1 %}"
        "{% block body %}{{ parts.bold(x) }}{{ bold(x) }}{{ strong(x) }}{{ mine() }}"
        "{{ maybe | default('') }}{% if perhaps is defined %}{{ perhaps }}{% endif %}"
        "{% include 'footer.html.j2' %}{{ locale }}{% endblock %}",
    )
    write(
        tmp_path,
        {
            "layout.html.j2": "{{ shown }}{{ brand }}{% block body %}{% endblock %}",
            "parts.html.j2": "{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}",
            "footer.html.j2": "{{ imprint }}",
        },
    )
    needed = {"order", "first", "items", "x", "brand", "imprint"}
    assert templates.required_variables("welcome", "en") == needed
    values: dict[str, object] = dict.fromkeys(needed, "v") | {"order": {"number": 7}}
    assert "<b>v</b>" in templates.render("welcome", "en", values).html
    assert "maybe" not in refused(templates, {})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ name }}", "parameter_missing: welcome/en lacks name"),
        (
            "{% no %}",
            "render_error: welcome/en/body.txt.j2, line 1: Encountered unknown tag 'no'.",
        ),
        ("{{ a.b }}", "render_error: welcome/en/body.txt.j2, line 1: a.b is undefined"),
        (
            "\n{{ l.x[0].y }}",
            "render_error: welcome/en/body.txt.j2, line 2: l.x is undefined",
        ),
        (
            "{% set x = 1 %}{{ t['no'] }}",
            "render_error: welcome/en/body.txt.j2, line 1: t.no is undefined",
        ),
        ("{{ t[a] }}", "render_error: welcome/en/body.txt.j2, line 1 (UndefinedError)"),
        ("{{ a + 1 }}", "render_error: welcome/en/body.txt.j2, line 1 (TypeError)"),
        (
            "{{ a.__class__.__mro__ }}",
            "render_error: welcome/en/body.txt.j2, line 1 (SecurityError)",
        ),
        ("{{ l.append(1) }}", "render_error: welcome/en/body.txt.j2, line 1 (SecurityError)"),
        ("{{ 1 // 0 }}", "render_error: welcome/en/body.txt.j2, line 1 (ZeroDivisionError)"),
    ],
)
def test_a_mail_that_cannot_be_filled_in_is_refused_by_file_and_kind_without_a_value(
    tmp_path: Path, source: str, reason: str
) -> None:
    templates = one(tmp_path, text=source)
    assert refused(templates, {"a": "secret", "l": [], "t": {}}) == reason


def test_white_space_of_statements_leaves_no_trace(tmp_path: Path) -> None:
    templates = one(tmp_path, text="a\n  {% if true %}\nb\n  {% endif %}\nc\n")
    assert templates.render("welcome", "en", {}).text == "a\nb\nc"


def test_the_version_names_the_files_it_was_made_from(tmp_path: Path) -> None:
    html = "{% extends '_layout/body.html.j2' %}"
    layout = {"_layout/body.html.j2": "one"}
    write(tmp_path, layout)
    first = one(tmp_path, html=html)
    version = first.version("welcome", "en")
    assert first.render("welcome", "en", {}).version == version
    assert len(version) == 12
    assert Templates(tmp_path).version("welcome", "fr") == version
    write(tmp_path, {"welcome/de/body.txt.j2": "other", "other/en/body.txt.j2": "other"})
    assert Templates(tmp_path).version("welcome", "en") == version
    seen = {version}
    for name in ("welcome/en/subject.txt.j2", "welcome/en/body.txt.j2", "_layout/body.html.j2"):
        write(tmp_path, {name: "changed"})
        seen.add(Templates(tmp_path).version("welcome", "en"))
    for declaration in ("{}", '{"reply_to": "care@example.com"}'):
        write(tmp_path, {"welcome/template.json": declaration})
        seen.add(Templates(tmp_path).version("welcome", "en"))
    assert len(seen) == 6


def test_a_changed_template_takes_effect_in_a_new_process_and_not_in_the_middle_of_one(
    tmp_path: Path,
) -> None:
    """A template mended while messages wait lets them go out; version and text stay together."""
    running = one(tmp_path, text="broken {{ nowhere }}")
    assert refused(running, {}).endswith("lacks nowhere")
    restarted = one(tmp_path, text="mended")
    assert refused(running, {}).endswith("lacks nowhere")
    assert restarted.render("welcome", "en", {}).text == "mended"


def test_a_directory_of_ones_own_comes_before_the_shipped_one(tmp_path: Path) -> None:
    one(tmp_path, name="receipt", text="ours {{ total }}")
    one(tmp_path, html="{% extends '_layout/body.html.j2' %}")
    both = Templates(tmp_path, SHIPPED)
    assert both.render("receipt", "en", {"total": "1"}).text == "ours 1"
    assert both.names() == [*OURS.names(), "welcome"]
    assert both.render("account_exists", "en", {}).subject == "You already have an account"
    assert Templates(tmp_path / "absent").names() == []


def test_a_sample_is_an_object_beside_its_template(tmp_path: Path) -> None:
    templates = one(tmp_path)
    with pytest.raises(TemplateError, match=r"welcome/sample\.json$"):
        templates.sample("welcome")
    write(tmp_path, {"welcome/sample.json": "[]"})
    with pytest.raises(TemplateError, match="not an object"):
        Templates(tmp_path).sample("welcome")


@pytest.mark.parametrize("configured", [True, False])
def test_this_process_uses_the_configured_directory_and_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, configured: bool
) -> None:
    one(tmp_path, text="{{ name }}")
    for name in (
        "DATABASE_SECRET_ARN",
        "TOKEN_KEYS_SECRET_ARN",
        "PEPPER_SECRET_ARN",
        "FROM_ADDRESS",
        "ATTACHMENTS_BUCKET",
    ):
        monkeypatch.setenv(name, "value@example.com")
    monkeypatch.setenv("PUBLIC_URL", "https://app.example.com")
    monkeypatch.setenv("TEMPLATES_DIRECTORY", str(tmp_path) if configured else "")
    settings.cache_clear()
    rendering.templates.cache_clear()
    try:
        assert rendering.required_variables("receipt", "en") == {"order_number", "total"}
        if configured:
            assert rendering.render("welcome", "en", {"name": "Ada"}).text == "Ada"
        else:
            assert rendering.templates().names() == OURS.names()
    finally:
        settings.cache_clear()
        rendering.templates.cache_clear()


def test_the_page_lists_the_shipped_templates_with_their_parameters() -> None:
    page = (SHIPPED.parents[4] / "docs" / "templates.md").read_text("utf-8")
    table = page.partition("| template | parameters")[2].partition("\n\n")[0]
    listed: dict[str, tuple[set[str], set[str]]] = {}
    for row in table.splitlines()[2:]:
        _, names, required, optional, _ = row.split("|")
        needed = set() if "none" in required else set(re.findall(r"`(\w+)`", required))
        for name in re.findall(r"`(\w+)`", names):
            listed[name] = (needed, set(re.findall(r"`(\w+)`", optional)))
    assert sorted(listed) == OURS.names()
    for name, (needed, optional) in listed.items():
        if name in {"verify_email", "reset_password"}:
            continue
        assert needed == OURS.required_variables(name, "en")
        shown = {member for sample in OURS.samples(name).values() for member in sample}
        assert shown - needed <= optional
