"""Templates with mustache's placeholders: made folders of ours, checked, sent, and read back.

What a template lacks to be one of ours is told by the check, with file and line; that is no wrong
answer. Wrong is what passes the check and is not in the inbox as it was rendered here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from local.mails import checking, mustache
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Any

    from tests.e2e.conftest import Answer


def prepare(sources: Path, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The names that can be sent, those that are refused, and why: a line for each fault."""
    names = mustache.write(sources, folder)
    faults = checking.check(folder, set())
    refused = {name for name in names for fault in faults if f"/{name}/" in f"/{fault.file}/"}
    good = [name for name in names if name not in refused]
    lines = [str(fault).replace(f"{folder}/", "") for fault in faults]
    return good, sorted(refused), lines if names else []


def run(
    folder: Path,
    names: list[str],
    send: Callable[[dict[str, Any]], Answer],
    inbox: Callable[[], Iterable[dict[str, Any]]],
) -> tuple[Counter[str], list[str]]:
    """Counts of what was sent and read back, and what is wrong; inbox lets all be sent first."""
    templates = Templates(folder, SHIPPED)
    counts: Counter[str] = Counter()
    wrong = []
    for place, name in enumerate(names):
        body = {"template": name, "to": [_reader(place)], "parameters": templates.sample(name)}
        answer = send(body)
        if answer.status != 202:
            wrong.append(f"template {name}: answered {answer.status}")
    found = {address: mail for mail in inbox() for address in mail["to"]}
    for place, name in enumerate(names):
        mail = found.get(_reader(place))
        rendered = templates.render(name, "en", templates.sample(name))
        if mail is None:
            wrong.append(f"template {name}: not in the inbox")
            continue
        for part, text in (
            ("subject", rendered.subject),
            ("text", rendered.text),
            ("html", rendered.html),
        ):
            if mail[part].split() != text.split():
                wrong.append(f"template {name}: another {part} in the inbox")
        counts["template: sent and read back"] += 1
    return counts, wrong


def _reader(place: int) -> str:
    return f"reader{place}@example.com"
