"""The desk behind SMTP: a relay that may lose its last answer, on the tests' own SMTP server."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from local.web import Request
from postlease.model import parse_event_id
from tests.chaos.ledger import Call
from tests.doubles.smtp_server import SmtpServer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.chaos.desk import Desk, Word

_READER = re.compile(r"reader([0-9]+)@")
_HEADER = re.compile(rb"^(X-Postlease-Id|X-Postlease-Attempt|Message-ID): (\S+)\r?$", re.MULTILINE)
_SMTP: dict[Word, bytes] = {
    "accepted": b"250 2.0.0 kept",
    "rejected": b"554 5.6.0 the content is refused",
    "throttled": b"451 4.7.1 try again later",
    "paused": b"421 4.3.2 no service now",
    "unavailable": b"451 4.3.0 not now",
}


class SmtpDouble:
    """An SMTP relay. It may lose its last answer, and names a mail by nothing but its headers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._relay = _Relay(desk)
        self._relay.__enter__()
        desk.server = self._relay.port

    @property
    def settings(self) -> dict[str, str]:
        """Plain: encryption is tested elsewhere."""
        return {
            "MAIL_PROVIDER": "smtp",
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(self._relay.port),
            "SMTP_SECURITY": "none",
        }

    def die(self, seconds: float) -> None:
        """Hang up on everybody who comes."""
        self._relay.is_dead = True
        time.sleep(seconds)
        self._relay.is_dead = False

    def close(self) -> None:
        """Wait for the conversations' ends."""
        self._relay.__exit__(None, None, None)


class _Relay(SmtpServer):
    is_dead = False

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._local = threading.local()

    def _serve(self, connection: socket.socket) -> None:
        if self.is_dead:
            connection.close()
            return
        with suppress(OSError):
            self._local.connection = connection
            self._local.port = connection.getpeername()[1]
            super()._serve(connection)

    def _take_text(self, read: Callable[[], bytes], say: Callable[[bytes], None]) -> None:
        lines = []
        while (line := read()) != b".\r\n":
            if not line:
                raise ConnectionError("the client left in the middle of its text")
            lines.append(line)
        text = b"".join(lines)
        headers = dict(_HEADER.findall(text))
        message = parse_event_id(headers[b"X-Postlease-Id"].decode())
        if message is None:
            raise ConnectionError("a mail that is not ours")
        number = reader_number(text.decode("ascii"))
        call = Call(
            message,
            number,
            int(headers[b"X-Postlease-Attempt"]),
            self._local.port,
            time.time(),
            provider_id=headers[b"Message-ID"].decode(),
        )
        connection = cast("socket.socket", self._local.connection)
        word, _ = self._desk.serve(call, is_gone=_gone(connection))
        if word == "silence":
            raise ConnectionError("planned silence")
        say(_SMTP[word])


def _gone(connection: socket.socket) -> Callable[[], bool]:
    request = Request("", "", (), b"", "", connection)
    return request.client_is_gone


def reader_number(text: str) -> int:
    """The number of the message that text is addressed to, or begins by addressing."""
    found = _READER.search(text)
    if found is None:
        raise ValueError("a mail to nobody that we know")
    return int(found[1])
