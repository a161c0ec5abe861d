"""A real socket relay: it answers each command as a test planned and keeps what it accepted."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

HANG_UP = b""
"""Close the connection instead of answering."""

SILENCE = None
"""Keep the connection open and say nothing."""

Reply: TypeAlias = bytes | None
_Said: TypeAlias = Callable[[bytes], None]


class _OverError(Exception):
    """The double ends the conversation."""


@dataclass
class SmtpServer:
    """Use as a context manager. replies maps a command's beginning to what is said to it.

    The keys `greeting` and `text` stand for the connection and the end of the text. Anything
    else gets a friendly answer. delay is what each answer takes, in seconds. tls lets it offer
    STARTTLS, or speak TLS from the start.
    """

    replies: dict[str, Reply] = field(default_factory=dict)
    extensions: tuple[bytes, ...] = (b"SIZE 1000000",)
    tls: ssl.SSLContext | None = None
    tls_from_start: bool = False
    delay: float = 0.0
    commands: list[bytes] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            if self.tls is not None and self.tls_from_start:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self._talk(connection)
        except (OSError, _OverError):
            return
        finally:
            connection.close()

    def _talk(self, connection: socket.socket) -> None:
        with ExitStack() as opened:
            self._follow(connection, opened)

    def _follow(self, connection: socket.socket, opened: ExitStack) -> None:
        lines = connection.makefile("rb")
        say = self._sayer(connection)
        self._answer("greeting", b"220 relay.example ESMTP", say)
        while command := lines.readline().rstrip(b"\r\n"):
            self.commands.append(command)
            verb = command.split(b" ")[0].upper().decode()
            planned = next((k for k in self.replies if command.decode().startswith(k)), verb)
            if verb == "QUIT":
                return
            if verb == "DATA" and self._answer(planned, b"354 go on", say).startswith(b"354"):
                self._take_text(lines.readline, say)
            elif verb == "STARTTLS" and self.tls is not None:
                if self._answer(planned, b"220 go on", say).startswith(b"220"):
                    connection = self.tls.wrap_socket(connection, server_side=True)
                    opened.callback(connection.close)
                    lines, say = connection.makefile("rb"), self._sayer(connection)
            elif verb != "DATA":
                self._answer(planned, self._friendly(verb), say)

    def _take_text(self, read: Callable[[], bytes], say: _Said) -> None:
        kept = b""
        while (line := read()) != b".\r\n":
            if not line:
                raise _OverError
            kept += line.removeprefix(b".")
        self.texts.append(kept)
        self._answer("text", b"250 kept", say)

    def _friendly(self, verb: str) -> bytes:
        if verb == "EHLO":
            lines = [b"relay.example", *self.extensions]
            marks = [b"-"] * (len(lines) - 1) + [b" "]
            return b"\r\n".join(b"250" + m + line for m, line in zip(marks, lines, strict=True))
        return b"235 welcome" if verb == "AUTH" else b"250 ok"

    def _sayer(self, connection: socket.socket) -> _Said:
        return lambda reply: connection.sendall(reply + b"\r\n")

    def _answer(self, key: str, friendly: bytes, say: _Said) -> bytes:
        reply = self.replies.get(key, friendly)
        if reply is SILENCE:
            self._over.wait()
            raise _OverError
        if reply == HANG_UP:
            raise _OverError
        self._over.wait(self.delay)
        say(reply)
        return reply


def plain_login(username: str, password: str) -> bytes:
    """The command with which a client logs in by AUTH PLAIN."""
    return b"AUTH PLAIN " + base64.b64encode(f"\0{username}\0{password}".encode())
