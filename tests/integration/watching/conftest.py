"""Real functions, run as their triggers run them, and what they write."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import runtime
from tests.integration.auth.conftest import World, world
from tests.integration.delivery.conftest import Sweeps, bucket, sweeps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Sweeps", "World", "bucket", "sweeps", "world"]

EVENTS = Path(__file__).parents[3] / "events"
ACCOUNT = runtime.ACCOUNT


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a handler may know of its invocation."""

    milliseconds: int = 60_000
    function_name: str = "postlease"
    memory_limit_in_mb: int = 1024
    invoked_function_arn: str = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:postlease"
    aws_request_id: str = "5b2f0c1e-8f4d-4a53-9c55-3f6f7d0a9103"
    log_stream_name: str = "stream"

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def run(
    sweeps: Sweeps, bucket: Callable[[str, bytes], str], capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Runs a function's handler with an event, by default its sample; answers what it wrote."""
    handlers: dict[str, Any] = {}

    def call(name: str, event: Any = None, *, milliseconds: int = 60_000) -> str:
        if name not in handlers:
            sys.modules.pop(f"functions.{name}.app", None)
            handlers[name] = importlib.import_module(f"functions.{name}.app").handler
        if event is None:
            event = json.loads((EVENTS / f"{name}-schedule.json").read_text("utf-8"))
        capsys.readouterr()
        handlers[name](event, Invocation(milliseconds))
        return capsys.readouterr().out

    yield call
    for name in handlers:
        sys.modules.pop(f"functions.{name}.app", None)
