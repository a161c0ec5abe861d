"""A real socket server in SES's place: it answers what a test planned and keeps what it got."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

SEND_PATH = "/v2/email/outbound-emails"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request.

    lost: it closes the connection without a word. raw: these bytes and no others, then it closes.
    """

    status: int = 200
    body: bytes = b'{"MessageId": "ses-1"}'
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    stalled: bool = False
    cut_at: int | None = None
    raw: bytes | None = None


def refusal(status: int, code: str, text: str) -> Answer:
    """An error as SES's REST-JSON protocol writes it."""
    body = json.dumps({"message": text}).encode()
    return Answer(status, body, {"x-amzn-ErrorType": f"{code}:http://internal.example/"})


LOST = Answer(lost=True)
STALLED = Answer(stalled=True)


def _reset(connection: socket.socket) -> None:
    """Close with linger zero: the client sees a reset, not an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class SesServer:
    """Use as a context manager; url is its endpoint. Unplanned requests are accepted."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.plan: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.callers: set[object] = set()
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    @property
    def mails(self) -> list[bytes]:
        """The MIME of each request."""
        return [base64.b64decode(request["Content"]["Raw"]["Data"]) for request in self.requests]

    def hear(self, caller: object, path: str, head: dict[str, str], body: bytes) -> None:
        """Keep what came in; a question about the account has no body. caller: one per connection.

        Names in head are in lower case.
        """
        self.callers.add(caller)
        self.paths.append(path)
        self.heads.append(head)
        self.bodies.append(body)
        if body:
            self.requests.append(json.loads(body))

    def next_answer(self) -> Answer:
        """What was planned next, or acceptance."""
        return self.plan.popleft() if self.plan else Answer()

    def forget(self) -> None:
        """Start over for the next test."""
        self.plan.clear()
        self.requests.clear()
        self.paths.clear()
        self.heads.clear()
        self.bodies.clear()
        self.callers.clear()

    def tags(self) -> list[dict[str, str]]:
        """The tags of each request."""
        return [
            {tag["Name"]: tag["Value"] for tag in request["EmailTags"]} for request in self.requests
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536  # Head and body in one packet: two cost 40 ms of delayed ACK.

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                head = {name.lower(): value for name, value in self.headers.items()}
                double.hear(self.client_address, self.path, head, body)
                answer = double.next_answer()
                if answer.stalled:
                    double._over.wait()
                if answer.stalled or answer.lost:
                    self.close_connection = True
                    _reset(self.connection)
                    return
                if answer.raw is not None:
                    self.wfile.write(answer.raw)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut_at])
                if answer.cut_at is not None:
                    self.close_connection = True

            do_GET = do_POST  # noqa: N815 - the base class finds it by this name

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

            def finish(self) -> None:
                try:
                    super().finish()
                except (OSError, ValueError):
                    return

        return Handler
