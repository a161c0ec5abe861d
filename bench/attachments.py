"""How much memory a sweep takes for mail with large attachments.

`python -m bench.attachments` runs the local stack, real processes and sockets, asks for messages
with an attachment each and lets the sweep send them. It prints the most memory that the sweep's
process ever held, as the kernel counted it, and ends with status 1 if that is more than the limit,
or if a message did not arrive with its attachment.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import time
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from bench.measuring import arguments
from local.stack import Stack

MESSAGES = 100
MEGABYTES = 5.0
LARGEST = 28.5
"""MB of an attachment: with more the mail is larger than SES takes."""
LIMIT = 512
"""MB of memory that the sweep must do with; the template gives it more, for its processor."""

_SWEEPS = 20

_ENQUEUE = """
SELECT postlease.enqueue_email(
    template => 'receipt', to_addresses => ARRAY['reader@example.com'],
    parameters => '{"order_number": "A-1", "total": "12.00"}', attachments => %s)
"""


def main(line: list[str] | None = None) -> int:
    """Send, print, and say whether all arrived and the memory was enough."""
    parser = arguments.parser("bench.attachments", __doc__)
    arguments.count(parser, "messages", MESSAGES, "so many, with one attachment each")
    parser.add_argument(
        "--megabytes",
        type=arguments.decimal(0.001, LARGEST),
        default=MEGABYTES,
        metavar="MB",
        help="of 10^6 bytes, for each attachment (%(default)s)",
    )
    given = parser.parse_args(line)
    size = int(given.megabytes * 1_000_000)
    # The provider that stands in for SES takes its time over a large mail.
    with Stack(settings={"SWEEP_LINGER_SECONDS": "0", "READ_TIMEOUT_SECONDS": "17"}) as stack:
        sweep = stack.functions["sweep"]
        stack.invoke("sweep")
        idle = _peak(sweep.last_pid)
        _ask(stack, given.messages, size)
        started = time.monotonic()
        for _ in range(_SWEEPS):
            stack.invoke("sweep")
            if stack.queue().get("sent") == given.messages:
                break
        seconds = time.monotonic() - started
        peak = _peak(sweep.last_pid)
        whole = sum(mail["attachments"][0]["size"] == size for mail in stack.inbox())
        starts = sweep.cold_starts
    print(f"attachments: messages={given.messages} bytes_each={size} arrived_whole={whole}")
    print(
        f"attachments: peak={peak:.0f} MB of {LIMIT} MB (idle {idle:.0f} MB), processes={starts},"
        f" seconds={seconds:.0f}"
    )
    return 0 if whole == given.messages and starts == 1 and peak <= LIMIT else 1


def _ask(stack: Stack, messages: int, size: int) -> None:
    """Put an object of size bytes for each message, and ask for the messages."""
    s3 = stack.aws.client("s3")
    [bucket] = [found["Name"] for found in s3.list_buckets()["Buckets"]]
    with psycopg.connect(stack.database_url) as connection:
        [tag] = connection.execute("SELECT postlease.attachments_tag()").fetchone() or ("",)
        for number in range(messages):
            content = secrets.token_bytes(size)
            key = f"attachments/uploads/{tag}/{number}.pdf"
            version = s3.put_object(Bucket=bucket, Key=key, Body=content)["VersionId"]
            attachment = {
                "storage_ref": key,
                "filename": "report.pdf",
                "content_type": "application/pdf",
                "version_id": version,
                "size": size,
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            connection.execute(_ENQUEUE, [Jsonb([attachment])])


def _peak(pid: int | None) -> float:
    """The most memory that the process ever had in use, in MB of 2^20 bytes as Lambda counts."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    sys.exit(arguments.status("bench.attachments", main))
