"""HTTP on loopback: a thread per connection, one packet per answer. Knows no routes, no events."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
_MEGABYTE = 1024 * 1024
_IDLE_SECONDS = 75
_BACKLOG = 1_024
_SHORT_OF_ROOM_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Request:
    """One request. target is path and query as sent; headers keep order, doubles and case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    peer: str
    connection: socket.socket = field(repr=False)

    def header(self, name: str) -> str | None:
        """The first header of that name, whatever its case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def path(self) -> str:
        """target without its query, still percent-encoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark, still percent-encoded."""
        return self.target.partition("?")[2]

    def client_is_gone(self) -> bool:
        """Whether the other side has closed the connection while it waits for our answer."""
        try:
            look = select.poll()
            look.register(self.connection, select.POLLIN)
            return bool(look.poll(0)) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. Content-Length is added, and the body left out where HTTP wants none."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = ()


Responder: TypeAlias = "Callable[[Request], Response | None]"
"""Answers a request; None drops the connection without a word."""


def json_response(status: int, content: Any) -> Response:
    """content as an `application/json` answer."""
    headers = (("content-type", "application/json"),)
    return Response(status, json.dumps(content, default=str).encode(), headers)


def message_response(status: int) -> Response:
    """An answer in API Gateway's own shape: `{"message": …}`."""
    words = {413: "Request Entity Too Large"}
    return json_response(status, {"message": words.get(status, HTTPStatus(status).phrase)})


class AddressInUseError(Exception):
    """Another process listens on the wanted port."""


class Front:
    """A server on loopback from construction to `close`. Port 0 takes a free one."""

    def __init__(
        self, respond: Responder, *, port: int = 0, body_limit: int = 10 * _MEGABYTE
    ) -> None:
        self.respond = respond
        self.body_limit = body_limit
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.listener.bind((LOOPBACK, port))
        except OSError as error:
            self.listener.close()
            raise AddressInUseError(f"port {port} is taken: choose another, or PORT=0") from error
        self.listener.listen(_BACKLOG)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Host and port."""
        host, port = self.listener.getsockname()
        return f"{host}:{port}"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.listener.getsockname()[1])

    def close(self) -> None:
        """Stop listening and cut every connection."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self.listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self.listener.accept()
            except OSError:
                if self._closed:
                    return
                # Out of descriptors, or the client has left: who comes next is still answered.
                time.sleep(_SHORT_OF_ROOM_SECONDS)
                continue
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._open.add(connection)
            talk = threading.Thread(target=self._talk, args=(connection, address), daemon=True)
            try:
                talk.start()
            except RuntimeError:  # no room for another thread
                self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _talk(self, connection: socket.socket, address: tuple[str, int]) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client that goes in the middle of anything ends its own connection and no more.
            with contextlib.suppress(OSError, ValueError):
                _Conversation(connection, address, self)
        finally:
            self._forget(connection)


class _BadRequestError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Conversation(BaseHTTPRequestHandler):
    """The requests of one connection, in turn."""

    protocol_version = "HTTP/1.1"
    server_version = "postlease"
    sys_version = ""
    wbufsize = -1  # head and body leave together: no 40 ms of Nagle against delayed ACK
    timeout = _IDLE_SECONDS

    def __init__(self, connection: socket.socket, address: Any, front: Front) -> None:
        self._front = front
        self.command = ""
        super().__init__(connection, address, front)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing: access logs would hold addresses and tokens."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer malformed HTTP in the gateway's shape and end the connection."""
        self.close_connection = True
        self.request_version = self.protocol_version  # whatever could be read of the request line
        self.command = self.command or ""
        self._answer(message_response(code))

    def handle_expect_100(self) -> bool:
        """Send `100 Continue` at once: what is buffered would keep the client waiting."""
        proceed = super().handle_expect_100()
        self.wfile.flush()
        return proceed

    def _exchange(self) -> None:
        try:
            body = self._read_body()
        except _BadRequestError as error:
            self.close_connection = True
            self._answer(message_response(error.status))
            return
        request = Request(
            self.command,
            self.path,
            tuple(self.headers.items()),
            body,
            self.client_address[0],
            self.connection,
        )
        try:
            response = self._front.respond(request)
        except Exception:  # noqa: BLE001  one request's trouble must not look like a network's
            traceback.print_exc()
            response = message_response(500)
        if response is None:
            self.close_connection = True
            return
        self._answer(response)

    def __getattr__(self, name: str) -> Any:
        """Take every method, whatever its name: what is served is for others to say."""
        if name.startswith("do_"):
            return self._exchange
        raise AttributeError(name)

    def _read_body(self) -> bytes:
        lengths = self.headers.get_all("content-length", [])
        if coding := self.headers.get("transfer-encoding"):
            if coding.strip().lower() != "chunked" or lengths:
                raise _BadRequestError(400)
            return self._read_chunks()
        if not lengths:
            return b""
        if len(set(lengths)) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()):
            raise _BadRequestError(400)
        if len(lengths[0]) > 12 or int(lengths[0]) > self._front.body_limit:
            raise _BadRequestError(413)
        body = self.rfile.read(int(lengths[0]))
        if len(body) < int(lengths[0]):
            raise ConnectionError("the client left in the middle of its body")
        return body

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = self.rfile.readline(1026).partition(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise _BadRequestError(400) from None
            if length < 0 or len(body) + length > self._front.body_limit:
                raise _BadRequestError(413 if length > 0 else 400)
            if length == 0:
                while self.rfile.readline(8194).strip():
                    pass  # trailers are read and dropped
                return bytes(body)
            body += self.rfile.read(length)
            if self.rfile.readline(3).strip():
                raise _BadRequestError(400)

    def _answer(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers:
            self.send_header(name, value)
        bodiless = response.status < 200 or response.status in {204, 304}
        if not bodiless:
            self.send_header("content-length", str(len(response.body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if not bodiless and self.command != "HEAD":
            self.wfile.write(response.body)
        self.wfile.flush()
