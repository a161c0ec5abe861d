"""A worker in a process of its own: it says when it is ready, starts when told, says what it did.

worker -> `{"ready": ...}`      everything is imported and connected
bench  -> a line                the clock starts
worker -> `{"done": ...}`       every message is handed out, or, of ours, recorded
bench  -> end of file           end
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Self

from bench.measuring import processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class ChildError(Exception):
    """A worker did not do what it was started for; the text is the end of what it wrote."""


class Child:
    """One worker, from `__enter__` on ready to start."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._folder = folder
        self._log = log
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Self:
        with self._log.open("ab") as errors:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env=self._environment,
                text=True,
            )
        try:
            self.told = self._hear("ready")
        except BaseException:
            self._child.kill()
            self._child.wait()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end, and wait for it: then the server has counted its commits."""
        if self._child.stdin:
            self._child.stdin.close()
        try:
            self._child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def processor_seconds(self) -> float:
        """What it has spent so far."""
        return processor.seconds(self._child.pid)

    def start(self) -> None:
        """Tell it to start."""
        if self._child.stdin:
            self._child.stdin.write("go\n")
            self._child.stdin.flush()

    def done(self) -> Any:
        """Wait until it says what it did."""
        return self._hear("done")

    def _hear(self, word: str) -> Any:
        """What it says under word; whatever else it prints is passed over."""
        for line in self._child.stdout or ():
            if line.startswith("{"):
                said = json.loads(line)
                if word in said:
                    return said[word]
        raise ChildError(self._log.read_text(errors="replace")[-2_000:])
