"""Logs are shown as they grow."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

from local.follow import follow

if TYPE_CHECKING:
    from pathlib import Path


class Output(io.StringIO):
    """Notes when a second line was written."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = threading.Event()

    def flush(self) -> None:
        """Look at what is there."""
        if self.getvalue().count("\n") >= 2:
            self.enough.set()


def test_lines_from_now_on_are_shown_with_the_name_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "auth.log").write_text("before\n")
    (tmp_path / "sweep.log").touch()
    output = Output()
    follow(tmp_path, output)
    for name in ("auth", "sweep"):
        with (tmp_path / f"{name}.log").open("a") as log:
            log.write("now\n")
    assert output.enough.wait(20)
    assert sorted(output.getvalue().splitlines()) == ["auth: now", "sweep: now"]
