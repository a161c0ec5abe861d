"""What every worker here says and hears; see bench/measuring/children.py."""

from __future__ import annotations

import json
import sys
from typing import Any

MODE, URL = sys.argv[1:3]
MESSAGES, SECONDS = int(sys.argv[3]), float(sys.argv[4])
BATCH = 1_000


def payload(number: int) -> dict[str, Any]:
    """What one message carries."""
    return {
        "template": "receipt",
        "to_addresses": [f"reader{number}@example.com"],
        "parameters": {"order_number": f"A-{number}", "total": "12.00"},
    }


def batches() -> list[range]:
    """The messages' numbers, a thousand at a time."""
    return [range(first, min(first + BATCH, MESSAGES)) for first in range(0, MESSAGES, BATCH)]


def ready() -> None:
    """Say that all is ready, and wait for the word to start."""
    _say({"ready": None})
    sys.stdin.readline()


def done() -> None:
    """Say that all is done, and wait for the end of input."""
    _say({"done": {"messages": MESSAGES}})
    sys.stdin.read()


def _say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)
