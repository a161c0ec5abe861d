"""The figures that the README shows: taken from the results as the page has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measuring.findings import Table
from bench.report.table import markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BEGIN, END = "<!-- written by `make bench` -->", "<!-- until here -->"

_QUEUE = "Queue path, 10,000 messages"
# What is told, of which case, which of its rows (by the first column), which column, its unit.
_LINES = (
    ("claim, authorize, record; 10,000 messages wait", _QUEUE, "Postlease", "messages/s"),
    ("with rendering and MIME", "Full path", "Postlease", "messages/s"),
    (
        "to SES's API over HTTP, a server that answers at once",
        "SES over HTTP",
        "Postlease",
        "sends/s",
    ),
    (
        "`enqueue_email`, one a transaction",
        "Asking for mail",
        "one a transaction, Postlease",
        "messages/s",
    ),
    ("a sign-up in process, median", "A sign-up in process", "handler", "p50 ms"),
    (
        "a claim of 100 among 5 million sent, p99",
        "Claims behind a history",
        "5,000,000",
        "claim p99 ms",
    ),
)


def figures(results: Mapping[str, Any]) -> str:
    """A table of what results have of it, and where they are from."""
    machine = results["machine"]
    rows = tuple(_rows(results["cases"]))
    return (
        f"{markdown(Table(('what', 'measured'), rows))}\n"
        f"On {machine['cores']} cores of {machine['processor']}, with PostgreSQL"
        f" {results['versions']['PostgreSQL']} and its default durability beside it."
        " [docs/performance.md](docs/performance.md)\n"
        "has all figures, and five other queues under the same work.\n"
    )


def written(readme: str, results: Mapping[str, Any]) -> str:
    """The text with its figures between the two marks anew. ValueError if a mark is missing."""
    before, begin, rest = readme.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not (begin and end):
        raise ValueError("the README has no place for its figures")
    return f"{before}{begin}\n{figures(results)}\n{end}{after}"


def _rows(cases: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for says, case, row, column in _LINES:
        for table in cases[case]["tables"] if case in cases else ():
            for found in table:
                if row in found.values() and column in found:
                    unit = column.rpartition(" ")[2]
                    yield says, f"{found[column].partition(' (')[0]} {unit}"
