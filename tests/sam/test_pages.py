"""The commands of the SAM CLI in the pages: each is one, and has the options that it is given."""

from __future__ import annotations

import json
import re
import subprocess

from tests.sam.conftest import OWN, PYTHON
from tests.template.deployment import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# SAM's own list of commands brings their names alone; each has a module of its own.
OPTIONS = """
import importlib, json, sys

def parameters(words):
    place = "samcli.commands." + words.replace(" ", ".").replace("-", "_")
    for name in ("command", "cli", place.rpartition(".")[2]):
        try:
            return importlib.import_module(f"{place}.{name}").cli.params
        except ModuleNotFoundError:
            pass
    return []

told = {words: [option for one in parameters(words) for option in one.opts]
        for words in json.load(sys.stdin)}
json.dump(told, sys.stdout)
"""


def commands() -> dict[str, set[str]]:
    """What is typed after `sam`, as far as it names a command, with its options."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for code in [*blocks, *re.findall(r"`([^`]+)`", sentences)]:
            for line in re.findall(r"(?<![\w./-])sam ([a-z][^\n;|&#]*)", code):
                words = line.split()
                named = [words.pop(0)]
                if named[0] in {"local", "remote", "list"} and words:
                    named.append(words.pop(0))
                found.setdefault(" ".join(named), set()).update(re.findall(r"--[a-z-]+", line))
    return found


def test_every_command_of_sam_in_the_pages_takes_what_it_is_given() -> None:
    wanted = {words: options for words, options in commands().items() if options}
    assert {"logs", "deploy", "remote invoke"} <= wanted.keys()
    done = subprocess.run(
        [str(PYTHON), "-c", OPTIONS],
        input=json.dumps(list(wanted)),
        env=OWN,
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for words, options in json.loads(done.stdout).items():
        assert options, words
        assert wanted[words] <= {*options, "--help"}, words
