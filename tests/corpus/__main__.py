"""`make corpus CORPUS=folder`: its files against a stack; status 1 if an answer is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from local.stack import ROOT, Stack
from tests.api.__main__ import SETTINGS
from tests.corpus import addresses, bodies, templates
from tests.e2e.conftest import ask, signed

PAGE = ROOT / "docs" / "addresses.md"


def main() -> int:
    """Send all of it and tell."""
    parser = argparse.ArgumentParser(prog="make corpus")
    parser.add_argument(
        "folder",
        type=Path,
        help="has json/*.json, emails/isemail-tests.xml, templates/*.{html,txt}",
    )
    folder = parser.parse_args().folder
    page = PAGE.read_text("utf-8")
    with tempfile.TemporaryDirectory() as place:
        good, refused, faults = templates.prepare(folder / "templates", Path(place))
        with Stack(settings=SETTINGS | {"TEMPLATES_DIRECTORY": place}) as stack:
            target = f"{stack.url}/v1/signups"
            counted, wrong = bodies.run(folder / "json", lambda body: ask(target, "POST", body))
            more, others = addresses.run(
                folder / "emails" / "isemail-tests.xml",
                page,
                lambda value: ask(target, "POST", value),
            )
            mails, lost = templates.run(
                Path(place),
                good,
                lambda body: signed(stack, "POST", "/v1/messages", body),
                lambda: _delivered(stack),
            )
    mails["template: refused when checked"] = len(refused)
    for words, number in [*sorted(counted.items()), *sorted(more.items()), *sorted(mails.items())]:
        print(f"{number:5d}  {words}")
    for fault in faults:
        print(f"refused: {fault}")
    wrong += others + lost
    for line in wrong:
        print(f"wrong: {line}")
    asked = counted.total() + more.total() + len(good) + len(refused)
    print(
        f"corpus: bodies={counted.total()} addresses={more.total()} "
        f"templates={len(good) + len(refused)} wrong={len(wrong)}"
    )
    return 0 if asked and not wrong else 1


def _delivered(stack: Stack) -> list[dict[str, Any]]:
    """What is in the inbox once nothing is due any more."""
    while stack.invoke("sweep").get("claimed"):
        pass
    return stack.inbox()


if __name__ == "__main__":
    sys.exit(main())
