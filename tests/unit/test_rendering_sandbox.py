"""Templates are code of the deployment; the sandbox is the fence behind the one who reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from pathlib import Path

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ ['']  | map(attribute='__class__') | list }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '{0.__class__}'.format_map({'0': ''}) }}",
    "{{ ('{0.__class__.__init__.__globals__}' | safe).format(name) }}",
    "{{ ['{0.__class__}'] | map('format', name) | list | string | replace('{0.__class__}', '') }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.__init__ }}",
    "{% for x in (1,) %}{{ loop.__class__ }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__class__ }}",
    "{{ range.__class__ }}",
    "{{ dict.__base__ }}",
    "{{ name.__init_subclass__ }}",
    "{{ items.append('x') }}",
    "{{ items.clear() }}",
    "{{ table.update(a=1) }}",
    "{{ range(999999999) | list }}",
]


def template(root: Path, text: str, html: str = "x") -> Templates:
    folder = root / "welcome" / "en"
    folder.mkdir(parents=True)
    for name, source in (("subject.txt", "x"), ("body.txt", text), ("body.html", html)):
        (folder / f"{name}.j2").write_text(source, "utf-8")
    return Templates(root, SHIPPED)


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_way_out_of_the_sandbox_leads_nowhere(tmp_path: Path, escape: str) -> None:
    values = {"name": "Ada", "items": ["a"], "table": {}}
    try:
        shown = template(tmp_path, escape).render("welcome", "en", values).text
    except TemplateError as error:
        assert error.code in {"render_error", "parameter_missing"}  # noqa: PT017  either is right
    else:
        assert "class" not in shown
        assert "function" not in shown
        assert "method" not in shown
    assert values == {"name": "Ada", "items": ["a"], "table": {}}


@pytest.mark.parametrize(
    "name", ["../secret.txt.j2", "/etc/hostname", "welcome/../../secret.txt.j2", "welcome//x", "."]
)
def test_a_template_draws_on_no_file_outside_of_its_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt.j2").write_text("secret", "utf-8")
    inner = tmp_path / "inner"
    templates = template(inner, "{% include '" + name + "' %}")
    with pytest.raises(TemplateError) as caught:
        templates.render("welcome", "en", {})
    assert caught.value.code == "template_missing"


def test_no_mail_knows_the_environment_of_its_function(tmp_path: Path) -> None:
    """What a template sees: the parameters, the language, and Jinja's own."""
    source = "{% if settings is defined or os is defined %}no{% endif %}{{ locale }}"
    seen = template(tmp_path, source)
    assert seen.render("welcome", "en", {}).text == "en"


GROWING = "{% set n = namespace(x='x') %}{% for _ in range(26) %}{% set n.x = ? %}{% endfor %}"
BILLION = 1_000_000_000


@pytest.mark.parametrize(
    "source",
    [
        "{{ '*' * number }}",
        "{{ number * '*' }}",
        "{{ ([1] * number) | length }}",
        "{{ number ** number }}",
        "{{ 2 ** number }}",
        "{{ 'x' | center(number) }}",
        "{{ 'x' | indent(number, true) }}",
        "{{ 'x' | indent(width=number, first=true) }}",
        "{{ [1] | batch(number, 'x') | list | length }}",
        "{{ [1] | slice(number) | list | length }}",
        "{{ 'x'.rjust(number) }}",
        "{{ 'x'.zfill(number) }}",
        "{{ '\t'.expandtabs(number) }}",
        "{{ range(number) | list | length }}",
        "{{ '\t'.expandtabs(tabsize=number) }}",
        "{{ '%*d' % (number, 1) }}",
        "{{ '%.*f' % (number, 1) }}",
        "{{ ('%*d' | e) % (number, 1) }}",
        "{{ '%s %*d' % ('x', number, 1) }}",
        "{{ ('%-' ~ number ~ 'd') % 1 }}",
        "{{ ('%(a)' ~ number ~ 'd') % {'a': 1} }}",
        "{{ ('%(a(b))' ~ number ~ 'd') % {'a(b)': 1} }}",
        "{{ '%*d' | format(number, 1) }}",
        "{{ ['%*d'] | map('format', number, 1) | first }}",
        "{{ '{:{w}}'.format(1, w=number) }}",
        "{{ ('{:{w}}' | e).format(1, w=number) }}",
        "{{ ('{:.' ~ number ~ 'f}').format(1) }}",
        "{{ '{a:{w}}'.format_map({'a': 1, 'w': number}) }}",
        "{{ 5 | round(number, 'ceil') }}",
        "{{ 5 | round(precision=-number) }}",
        "{{ [1] | tojson(indent=number) }}",
    ],
)
def test_no_number_makes_more_than_fits_into_a_mail(tmp_path: Path, source: str) -> None:
    """It would take the worker's memory or time, and with it every mail in flight."""
    with pytest.raises(TemplateError, match="OverflowError"):
        template(tmp_path, source).render("welcome", "en", {"number": BILLION})


@pytest.mark.parametrize(
    "source",
    [
        "{{ ([text] * number) | join }}",
        "{{ ([1] * number) | join(text) }}",
        "{{ ''.join([text] * number) }}",
        "{{ text.join(['', ''] * number) }}",
        "{{ ([text] * number) | tojson | length }}",
        "{{ ([{'a': [text]}] * number) | tojson | length }}",
        "{{ ([text] * number) | map('upper') | list | length }}",
        "{{ ([range(number) | list] * number) | sum(start=[]) | length }}",
        "{{ text | replace('x', text) }}",
        "{{ text.replace('x', text) }}",
        "{{ text | wordwrap(1, wrapstring=text) }}",
        "{{ tabs.expandtabs(number) }}",
        "{{ lines | indent(number, blank=true) }}",
        "{{ lines | indent(text, blank=true) }}",
        "{{ ('%(a)s' * number) % {'a': text} }}",
        "{{ ('{0}' * number).format(text) }}",
        "{% for _ in range(number) %}{{ text }}{% endfor %}",
        "{% set all %}{% for _ in range(number) %}{{ text }}{% endfor %}{% endset %}",
        "{% macro m() %}{% for _ in range(number) %}{{ text }}{% endfor %}{% endmacro %}{{ m() }}",
        GROWING.replace("?", "n.x ~ n.x"),
        GROWING.replace("?", "n.x + n.x"),
        GROWING.replace("?", "n.x + n.x").replace("'x'", "[1]"),
        GROWING.replace("?", "n.x * n.x").replace("'x'", "2"),
    ],
)
def test_no_text_is_made_so_often_that_it_fits_into_no_mail(tmp_path: Path, source: str) -> None:
    values = {"number": 5_000, "text": "x" * 5_000, "tabs": "\t" * 5_000, "lines": "\n" * 5_000}
    with pytest.raises(TemplateError, match="OverflowError"):
        template(tmp_path, source).render("welcome", "en", values)


@pytest.mark.parametrize(
    "source",
    ["{{ 'x'.encode() }}", "{{ number.to_bytes(number) }}", "{{ 'x'.translate({120: 'y'}) }}"],
)
def test_a_template_has_no_bytes_and_no_tables_of_texts(tmp_path: Path, source: str) -> None:
    with pytest.raises(TemplateError, match="SecurityError"):
        template(tmp_path, source).render("welcome", "en", {"number": 5})


@pytest.mark.parametrize("source", ["{{ '%c' % half }}", "{{ '{:c}'.format(half) }}"])
def test_half_a_surrogate_is_no_text(tmp_path: Path, source: str) -> None:
    """An endpoint that asks whether a mail can be made hears of it, not the send."""
    for files in ({"text": source}, {"text": "x", "html": source}):
        with pytest.raises(TemplateError, match="UnicodeEncodeError") as caught:
            template(tmp_path / str(len(files)), **files).render("welcome", "en", {"half": 0xD800})
        assert caught.value.code == "render_error"


def test_no_number_makes_filler(tmp_path: Path) -> None:
    """Jinja's own `lipsum` makes as much of it as it is told to."""
    with pytest.raises(TemplateError, match="lacks lipsum"):
        template(tmp_path, "{{ lipsum(number) }}").render("welcome", "en", {"number": BILLION})


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("{{ '*' * number }}", "*****"),
        ("{{ number * '*' }}", "*****"),
        ("{{ 1_000_000 * number }}", "5000000"),
        ("{{ 1.5 * number }}", "7.5"),
        ("{{ number ** 3 }}", "125"),
        ("{{ number ** -1 }}", "0.2"),
        ("{{ 2 ** 0.5 > 1.4 and 'yes' }}", "yes"),
        ("{{ 'x' | center(number) }}", "  x  "),
        ("{{ 'x' | indent(number, true) }}", "     x"),
        ("{{ [1, 2] | batch(number, 0) | first | join }}", "12000"),
        ("{{ [1, 2] | slice(2) | first | join }}", "1"),
        ("{{ '7'.zfill(number) }}", "00007"),
        ("{{ 'a-b'.split('-') | join }}", "ab"),
        ("{{ '%*d' % (number, 1_000_000) }}", "1000000"),
        ("{{ '%*.*f|' % (number, 1, 2) }}", "  2.0|"),
        ("{{ '%05.1f%% %s' % (number, 1_000_000) }}", "005.0% 1000000"),
        ("{{ '%(a)s of %(b)d' % {'a': number, 'b': 1_000_000} }}", "5 of 1000000"),
        ("{{ '%s %s' | format(number, 1_000_000) }}", "5 1000000"),
        ("{{ '{:>{w}}|{:,}'.format('x', 1_000_000, w=number) }}", "    x|1,000,000"),
        ("{{ '{a:>{w}}'.format_map({'a': 'x', 'w': number}) }}", "    x"),
        ("{{ ('{}' | e).format('x') }}", "x"),
        ("{{ 'n' | replace('n', 1_000_000) }}", "1000000"),
        ("{{ [1, 2] | join(1_000_000) }}", "110000002"),
        ("{{ ', '.join(['a', 'b'] | map('upper')) }}", "A, B"),
        ("{{ 1_000_000.25 | round(1) }}", "1000000.2"),
        ("{{ [1] | tojson(indent=2) | length }}", "7"),
        ("{{ 'a b' | wordwrap(1) }}", "a\nb"),
        ("{{ 'a\tb'.expandtabs(number) }}", "a    b"),
    ],
)
def test_numbers_count_as_ever(tmp_path: Path, source: str, shown: str) -> None:
    assert template(tmp_path, source).render("welcome", "en", {"number": 5}).text == shown
