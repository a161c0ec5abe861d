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
    ],
)
def test_no_number_makes_more_than_fits_into_a_mail(tmp_path: Path, source: str) -> None:
    """It would take the worker's memory or time, and with it every mail in flight."""
    with pytest.raises(TemplateError, match="OverflowError"):
        template(tmp_path, source).render("welcome", "en", {"number": BILLION})


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
    ],
)
def test_numbers_count_as_ever(tmp_path: Path, source: str, shown: str) -> None:
    assert template(tmp_path, source).render("welcome", "en", {"number": 5}).text == shown
