"""A real socket server in Resend's place. It keeps keys as Resend documents it.

The same key and body is answered as before and accepted once; the same key with another body, and a
key whose request still runs, are refused with 409. What a test plans comes first.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

API_KEY = "re_double"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request. Without a status it judges for itself.

    lost: the connection is reset instead of answered. stalled: nothing is said until the server
    ends. running: the answer waits for `finish`, and the key is in use until then.
    """

    status: int | None = None
    body: bytes = b""
    lost: bool = False
    stalled: bool = False
    running: bool = False
    cut_at: int | None = None


def refusal(status: int, name: str, message: str = "") -> Answer:
    """An error as Resend writes it."""
    return Answer(status, _error(status, name, message))


LOST = Answer(lost=True)
"""Judged, accepted even, and then never answered."""

STALLED = Answer(stalled=True)
RUNNING = Answer(running=True)


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


class ResendServer:
    """Use as a context manager; url is its endpoint.

    requests holds every request, mails each accepted body by its id; started is set once a planned
    request runs. With loses_first the first
    answer under each key is lost on its way, whatever it was.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, *, loses_first: bool = False) -> None:
        self.plan: deque[Answer] = deque()
        self.requests: list[Received] = []
        self.mails: dict[str, dict[str, Any]] = {}
        self.connections = 0
        self._loses_first = loses_first
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[dict[str, Any], str]] = {}
        self._in_use: set[str] = set()
        self.started = threading.Event()
        self._over = threading.Event()
        self._finished = threading.Event()
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

    def asked(self) -> Counter[str]:
        """How many requests came in under each key."""
        with self._lock:
            return Counter(request.key for request in self.requests)

    def finish(self) -> None:
        """Let what runs be answered."""
        self._finished.set()

    def forget(self) -> None:
        """Start over for the next test."""
        with self._lock:
            self.plan.clear()
            self.requests.clear()
            self.mails.clear()
            self._kept.clear()

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
        self._finished.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _respond(self, request: Received) -> Answer:
        """What is said to one request: as planned, or as Resend's rules have it."""
        with self._lock:
            is_first = all(earlier.key != request.key for earlier in self.requests)
            self.requests.append(request)
            planned = self.plan.popleft() if self.plan else Answer()
            if planned.running:
                self._in_use.add(request.key)
        if planned.running:
            self.started.set()
            self._finished.wait()
        if planned.status is not None:
            return planned
        with self._lock:
            if planned.running:
                self._in_use.discard(request.key)
            status, body = self._judge(request)
        lost = planned.lost or (self._loses_first and is_first)
        return replace(planned, status=status, body=body, lost=lost)

    def _judge(self, request: Received) -> tuple[int, bytes]:
        given = request.headers.get("authorization")
        if given is None:
            return _refused(401, "missing_api_key", "Missing API key in the authorization header.")
        if given != f"Bearer {API_KEY}":
            return _refused(403, "invalid_api_key", "API key is invalid.")
        if request.path != "/emails":
            return _refused(404, "not_found", "The requested endpoint does not exist.")
        if not 1 <= len(request.key) <= 256:
            return _refused(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        if missing := {"from", "to", "subject"} - request.body.keys():
            return _refused(422, "missing_required_field", f"Missing {', '.join(sorted(missing))}.")
        if request.key in self._in_use:
            return _refused(409, "concurrent_idempotent_requests", "Still in progress.")
        if request.key in self._kept:
            body, identifier = self._kept[request.key]
            if body != request.body:
                return _refused(409, "invalid_idempotent_request", "Another payload.")
        else:
            identifier = str(uuid4())
            self._kept[request.key] = (request.body, identifier)
            self.mails[identifier] = request.body
        return 200, json.dumps({"id": identifier}).encode()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536  # Head and body in one packet: two cost 40 ms of delayed ACK.

            def setup(self) -> None:
                super().setup()
                with double._lock:
                    double.connections += 1

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = double._respond(Received(self.path, headers, json.loads(body)))
                if answer.stalled:
                    double._over.wait()
                if answer.stalled or answer.lost:
                    self.close_connection = True
                    _reset(self.connection)
                    return
                self.send_response(answer.status or 200)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut_at])
                if answer.cut_at is not None:
                    self.close_connection = True

            def handle(self) -> None:
                with suppress(OSError):  # a client that hangs up, or that trusts us not
                    super().handle()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

            def finish(self) -> None:
                try:
                    super().finish()
                except (OSError, ValueError):
                    return

        return Handler


def _error(status: int, name: str, message: str) -> bytes:
    return json.dumps({"statusCode": status, "name": name, "message": message}).encode()


def _refused(status: int, name: str, message: str) -> tuple[int, bytes]:
    return status, _error(status, name, message)


def _reset(connection: socket.socket) -> None:
    """Linger zero: the client sees a reset, not an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
