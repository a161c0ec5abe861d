"""`python -m local.mails write|check|preview [folder]`: see the package."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from local.mails import preview
from local.mails.checking import check
from local.mails.inlining import InliningError, results
from local.stack import ROOT
from postlease.errors import TemplateError
from postlease.rendering import SHIPPED, Templates

PREVIEW = ROOT / ".local" / "preview"


def main() -> int:
    """Run the command that the arguments name and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m local.mails")
    parser.add_argument("command", choices=("write", "check", "preview"))
    parser.add_argument("folder", type=Path, nargs="?", default=SHIPPED)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not folder.is_dir():
        print(f"error: {folder} is no folder", file=sys.stderr)
        return 1
    try:
        match arguments.command:
            case "write":
                return _write(folder)
            case "check":
                return _check(folder)
            case _:
                names = Templates(folder).names()
                print(preview.write(Templates(folder, SHIPPED), names, PREVIEW))
    except (InliningError, TemplateError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _write(folder: Path) -> int:
    for written in results(folder):
        if not written.is_current:
            written.path.write_text(written.text, "utf-8")
            print(f"written: {written.path}")
    return 0


def _check(folder: Path) -> int:
    names = (os.environ.get("ALLOWED_SENDERS", ""), os.environ.get("FROM_ADDRESS", ""))
    senders = {part.strip().lower() for text in names for part in text.split(",")} - {""}
    faults = check(folder, senders)
    for fault in faults:
        print(fault)
    mails = Templates(folder)
    print(f"check-templates: templates={len(mails.names())} faults={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
