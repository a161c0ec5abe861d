"""What `sam build` left, and the Python to run it with: this machine's stand-in for Lambda.

Folders only; nothing is built or started here.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Built:
    """folder is SAM's build; python is a 3.13 with nothing but what Lambda's runtime brings."""

    folder: Path
    python: Path

    @property
    def processor(self) -> str:
        """The template's word for this machine's processor: only its wheels run here."""
        return _PROCESSORS[platform.machine().lower()]

    @property
    def environment(self) -> dict[str, str]:
        """What Lambda says and a built function sees.

        Its file system is read-only: what was not compiled before is compiled at every start.
        """
        return {"AWS_EXECUTION_ENV": "AWS_Lambda_python3.13", "PYTHONDONTWRITEBYTECODE": "1"}

    def function(self, logical_id: str) -> Path:
        """What becomes the function's /var/task."""
        return self.folder / logical_id

    def layer(self, logical_id: str) -> Path:
        """The layer's part of /opt/python."""
        return self.folder / logical_id / "python"
