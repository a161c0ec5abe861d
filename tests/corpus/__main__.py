"""`make corpus CORPUS=folder`: its files against a stack; status 1 if an answer is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from local.stack import ROOT, Stack
from tests.api.__main__ import SETTINGS
from tests.corpus import addresses, bodies
from tests.e2e.conftest import ask

PAGE = ROOT / "docs" / "addresses.md"


def main() -> int:
    """Send all of it and tell."""
    parser = argparse.ArgumentParser(prog="make corpus")
    parser.add_argument("folder", type=Path, help="has json/*.json and emails/isemail-tests.xml")
    folder = parser.parse_args().folder
    page = PAGE.read_text("utf-8")
    with Stack(settings=SETTINGS) as stack:
        target = f"{stack.url}/v1/signups"
        counted, wrong = bodies.run(folder / "json", lambda body: ask(target, "POST", body))
        more, others = addresses.run(
            folder / "emails" / "isemail-tests.xml", page, lambda value: ask(target, "POST", value)
        )
    for words, number in [*sorted(counted.items()), *sorted(more.items())]:
        print(f"{number:5d}  {words}")
    for line in wrong + others:
        print(f"wrong: {line}")
    asked = counted.total() + more.total()
    print(f"corpus: bodies={counted.total()} addresses={more.total()} wrong={len(wrong + others)}")
    return 0 if asked and not wrong + others else 1


if __name__ == "__main__":
    sys.exit(main())
