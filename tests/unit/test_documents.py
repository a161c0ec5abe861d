"""What the pages point to is there: files, headings, targets of make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_target_of_make_that_is_named_exists(page: Path) -> None:
    code = re.findall(r"`(make [^`]+)`|^(make [^\n]+)$", page.read_text("utf-8"), re.MULTILINE)
    for command in (first or second for first, second in code):
        words = command.partition("#")[0].split()[1:]
        # The assignment's value may hold spaces; what follows its quote is no target.
        named = {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}
        assert named <= TARGETS, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_query_of_an_example_is_written_in_the_order_in_which_it_is_signed(
    page: Path,
) -> None:
    """Older releases of curl sign the query as it was typed; the signature wants it sorted."""
    for query in re.findall(r"/v1/[\w/{}$-]+\?([^\"\s`]+)", page.read_text("utf-8")):
        parts = query.split("&")
        assert parts == sorted(parts), query
        assert re.fullmatch(r"[\w%.=&-]+", query), f"not encoded: {query}"


def test_the_readme_is_there_and_begins_with_what_it_is() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.startswith("# Postlease\n")
    assert text.index("make demo") < text.index("make test") < text.index("## The flow")
