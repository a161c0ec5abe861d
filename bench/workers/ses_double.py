"""SES in a process of its own: `python -m bench.workers.ses_double`. It accepts, and counts.

It says its port, and at its end how many mails it accepted. Every answer is the same but for its
id; what comes in is read and not looked into.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys

_ACCOUNT = b'{"SendQuota": {"MaxSendRate": 0}, "SendingEnabled": true}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_numbers = itertools.count(1)
_accepted = 0


class Double(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if at < 0 and b"expect: 100-continue" in head:
                return
            if b"expect: 100-continue" in head and len(self._buffer) == end + 4:
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._answer(is_send=head.startswith(b"post"))

    def _answer(self, *, is_send: bool) -> None:
        global _accepted  # noqa: PLW0603  one process, one count
        body = _ACCOUNT
        if is_send:
            _accepted += 1
            body = b'{"MessageId": "0100018f-%048d-000000"}' % next(_numbers)
        self._write(_HEAD % len(body) + body)

    def _write(self, data: bytes) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(data)


async def main() -> None:
    """Serve until the end of input."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Double, "127.0.0.1", 0, backlog=1_024)
    print(json.dumps({"ready": server.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    print(json.dumps({"done": _accepted}), flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
