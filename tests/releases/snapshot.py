"""A release's statements and calls as files that a person can read and a diff can show.

statements.sql   each statement under a line `--- <name>`
calls.json       the calls of the story in their order, one a line
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tests.releases.collecting import name_of

FOLDER = Path(__file__).parent
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_BOUNDS = ("BEGIN", "COMMIT")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered: rows counts what it changed or found.

    columns are `name type`. values are those of a row that do not depend on the moment.
    """

    rows: int
    columns: tuple[str, ...] = ()
    values: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One statement by one actor, or `BEGIN` or `COMMIT`. parameters are in the form of the file.

    A parameter `{"from": [4, 0, "id"]}` is what the fifth call's first row had as its id.
    """

    by: str
    run: str
    parameters: dict[str, Any] | None = None
    answer: Answer | None = None

    @property
    def is_bound(self) -> bool:
        """Whether it begins or ends a transaction."""
        return self.run in _BOUNDS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A release's statements by name, and its calls."""

    statements: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def named(self, text: str) -> str:
        """The statement's name here; a second text of the same name gets a number."""
        name = name_of(text)
        if name is None:
            raise ValueError(f"a statement without a name in its first line: {text[:60]!r}")
        known = [key for key in self.statements if key.partition(" ")[0] == name]
        for key in known:
            if self.statements[key] == text:
                return key
        key = f"{name} {len(known) + 1}" if known else name
        self.statements[key] = text
        return key


def folders() -> list[Path]:
    """The releases that are kept, the oldest first."""
    found = [path for path in FOLDER.iterdir() if _VERSION.fullmatch(path.name)]
    return sorted(found, key=lambda path: tuple(map(int, path.name.split("."))))


def write(snapshot: Snapshot, folder: Path) -> None:
    """Write both files; the folder is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [f"--- {name}\n{text}" for name, text in sorted(snapshot.statements.items())]
    folder.joinpath("statements.sql").write_text("\n".join(texts), "utf-8")
    lines = ",\n".join(json.dumps(_line(call), ensure_ascii=False) for call in snapshot.calls)
    folder.joinpath("calls.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def read(folder: Path) -> Snapshot:
    """What `write` wrote."""
    parts = re.split(
        r"^--- (.+)\n", folder.joinpath("statements.sql").read_text("utf-8"), flags=re.MULTILINE
    )
    names, texts = parts[1::2], parts[2::2]
    # All but the last are followed by the empty line between two.
    texts = [text.removesuffix("\n") for text in texts[:-1]] + texts[-1:]
    lines = json.loads(folder.joinpath("calls.json").read_text("utf-8"))
    return Snapshot(dict(zip(names, texts, strict=True)), [_call(line) for line in lines])


def _line(call: Call) -> dict[str, Any]:
    line: dict[str, Any] = {"by": call.by, "run": call.run}
    if call.parameters is not None:
        line["with"] = call.parameters
    if call.answer is not None:
        line["rows"] = call.answer.rows
        if call.answer.columns:
            line["columns"] = list(call.answer.columns)
        if call.answer.values:
            line["values"] = list(call.answer.values)
    return line


def _call(line: dict[str, Any]) -> Call:
    answer = None
    if "rows" in line:
        columns, values = tuple(line.get("columns", ())), tuple(line.get("values", ()))
        answer = Answer(line["rows"], columns, values)
    return Call(line["by"], line["run"], line.get("with"), answer)


def to_json(value: object) -> Any:
    """A parameter in the form of the file, its type kept: the driver sends it by its type."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [to_json(one) for one in value]
        case UUID():
            return {"uuid": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case timedelta():
            return {"seconds": value.total_seconds()}
        case datetime():
            return {"time": value.isoformat()}
        case Jsonb():
            return {"jsonb": value.obj}
    raise TypeError(f"a parameter of a type that no snapshot has: {type(value).__name__}")


def from_json(value: Any) -> Any:
    """The parameter that `to_json` was given."""
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    [(kind, given)] = value.items()
    match kind:
        case "uuid":
            return UUID(given)
        case "bytes":
            return bytes.fromhex(given)
        case "seconds":
            return timedelta(seconds=given)
        case "time":
            return datetime.fromisoformat(given)
        case "jsonb":
            return Jsonb(given)
    raise TypeError(f"no kind of parameter: {kind}")
