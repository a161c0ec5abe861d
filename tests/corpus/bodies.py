"""Bodies of nst/JSONTestSuite: `n_*` must not be read, `y_*` must; none fails on our side.

A body of two meanings (a doubled member, NUL) is refused with its place, although it is JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Answer

JUDGED = ("the body must be a JSON object", "this member is not known")
"""What is said of JSON that was read and is no request of ours."""
TWO_MEANINGS = ("stands twice", "a NUL character is not allowed")


def run(folder: Path, send: Callable[[bytes], Answer]) -> tuple[Counter[str], list[str]]:
    """Counts by kind and answer, and the names of the files whose answer is wrong."""
    counts: Counter[str] = Counter()
    wrong = []
    for path in sorted(folder.glob("[ny]_*.json")):
        content = path.read_bytes()
        told = verdict(send(content))
        counts[f"{path.name[0]}: {told}"] += 1
        if told not in expected(path.name[0], content):
            wrong.append(f"{path.name}: {told}")
    return counts, wrong


def expected(kind: str, content: bytes) -> set[str]:
    """The right verdicts of a body."""
    if kind == "n":
        return {"unreadable"}
    return {"two meanings"} if has_two_meanings(content) else {"judged"}


def has_two_meanings(content: bytes) -> bool:
    """Whether JSON has a doubled member or a NUL, by the standard library's reading.

    NUL is looked for in members, and in the text or list that the body is.
    """
    found: list[bool] = []

    def look(members: list[tuple[str, object]]) -> None:
        names = [name for name, _ in members]
        found.append(len(names) > len(set(names)) or any("\0" in name for name in names))
        found.extend("\0" in value for _, value in members if isinstance(value, str))

    value = json.loads(content, object_pairs_hook=look)
    texts = value if isinstance(value, list) else [value]
    return any(found) or any("\0" in text for text in texts if isinstance(text, str))


def verdict(answer: Answer) -> str:
    """What an answer says of the body."""
    problem = answer.headers.get("content-type") == "application/problem+json"
    if not problem or not 400 <= answer.status < 500:
        return f"answered {answer.status}"
    [error] = answer.json.get("errors") or [{"detail": "", "pointer": ""}]
    if answer.status == 422 or error["detail"] in JUDGED:
        return "judged"
    if answer.status != 400 or not answer.json["type"].endswith(":invalid-request"):
        return f"answered {answer.status}"
    if any(words in error["detail"] for words in TWO_MEANINGS):
        return "two meanings" if error["pointer"].startswith("#/") else "two meanings, no place"
    return "unreadable"
