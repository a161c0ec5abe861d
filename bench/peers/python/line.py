"""What every worker here says and hears; see bench/measuring/children.py."""

from __future__ import annotations

import json
import sys
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODE, URL = sys.argv[1:3]
MESSAGES, SECONDS = int(sys.argv[3]), float(sys.argv[4])
COMPOSES = MODE == "drain" and sys.argv[5:] == ["compose"]
BATCH = 1_000


def payload(number: int) -> dict[str, Any]:
    """What one message carries."""
    return {
        "template": "receipt",
        "to_addresses": [f"reader{number}@example.com"],
        "parameters": {"order_number": f"A-{number}", "total": "12.00"},
    }


def composer() -> Callable[[str, Mapping[str, Any]], bytes]:
    """What renders and builds a mail of an address and parameters, as Postlease does; warm."""
    from postlease import mime  # noqa: PLC0415
    from postlease.model import Addressing, Envelope  # noqa: PLC0415
    from postlease.rendering.filling import Templates  # noqa: PLC0415
    from postlease.rendering.folders import SHIPPED  # noqa: PLC0415

    templates = Templates(SHIPPED)

    def compose(address: str, parameters: Mapping[str, Any]) -> bytes:
        return mime.compose(
            envelope=Envelope("noreply@example.com", (address,), (), ()),
            rendered=templates.render("receipt", "en", dict(parameters)),
            attachments=(),
            message_id=uuid.uuid4(),
            attempt=1,
            sent_at=datetime.now(UTC),
            shown=Addressing("Example", {}, None),
        )

    warm = payload(0)
    compose(warm["to_addresses"][0], warm["parameters"])
    return compose


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
