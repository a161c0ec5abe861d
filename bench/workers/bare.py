"""The same mails without a queue: `python -m bench.workers.bare <JSON>`.

The JSON says `messages`, `threads`, and `case`: `bytes` renders and composes; `boto3` also sends
with one plain boto3 client, which all threads share, and keeps no record.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.workers import arranging

if TYPE_CHECKING:
    from collections.abc import Callable

SENDER = "noreply@example.com"
TEMPLATE = "receipt"


def main() -> None:
    """Be ready, send so many, say so."""
    line, asked = arranging.Line(), arranging.given()
    arranging.deployed(**asked.get("variables", {}))
    act = bare_boto3() if asked["case"] == "boto3" else compose
    act(0)
    if line.ready():
        started = time.monotonic()
        threads = asked["threads"]
        if threads == 1:
            for number in range(asked["messages"]):
                act(number)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(act, range(asked["messages"])):
                    pass
        line.done({"seconds": time.monotonic() - started})
        line.ready()


def compose(number: int) -> bytes:
    """One mail, rendered and composed as the delivery does it."""
    from postlease import mime, rendering  # noqa: PLC0415
    from postlease.model import Addressing, Envelope  # noqa: PLC0415

    parameters = {"order_number": f"A-{number}", "total": "12.00"}
    return mime.compose(
        envelope=Envelope(SENDER, (_reader(number),), (), ()),
        rendered=rendering.templates().render(TEMPLATE, "en", parameters),
        attachments=(),
        message_id=uuid.uuid4(),
        attempt=1,
        sent_at=datetime.now(UTC),
        shown=Addressing("Example", {}, None),
    )


def bare_boto3() -> Callable[[int], Any]:
    """A call that sends one mail as anybody would with boto3."""
    import boto3  # noqa: PLC0415

    client = boto3.client("sesv2")

    def send(number: int) -> Any:
        return client.send_email(
            FromEmailAddress=SENDER,
            Destination={"ToAddresses": [_reader(number)]},
            Content={"Raw": {"Data": compose(number)}},
        )

    return send


def _reader(number: int) -> str:
    return f"reader{number}@example.com"


if __name__ == "__main__":
    main()
