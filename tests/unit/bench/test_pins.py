"""The peers are those that somebody measured before: versions and hashes are pinned."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "bench" / "peers" / "node"


def test_the_peers_of_node_are_locked_by_their_hashes_and_to_no_registry() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    locked = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    for name, version in wanted.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    for name, package in locked.items():
        assert not name or package["integrity"].startswith("sha512-")
        assert "resolved" not in package


def test_the_peers_of_python_are_locked_by_their_hashes() -> None:
    text = (ROOT / "requirements" / "peers.txt").read_text()
    for requirement in re.split(r"\n(?=[a-z])", text.strip()):
        assert re.match(r"[a-z0-9-]+==[^ ]+", requirement)
        assert "--hash=sha256:" in requirement
    assert "://" not in text
