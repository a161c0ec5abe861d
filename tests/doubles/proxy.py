"""A TCP proxy whose wire can fall silent, as behind a gateway that forgot its connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"


class _Wire:
    """How the connections that are open now behave."""

    def __init__(self) -> None:
        self.is_silent = False
        self.hangs_up = False


class Proxy:
    """Forwards to host and port, until it is told of a fault."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._wire = _Wire()
        self._listener = socket.create_server((LOOPBACK, 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.connections = 0

    @property
    def port(self) -> int:
        """Where to connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        for thread in self._threads:
            thread.join()

    def silence(self) -> None:
        """Swallow what comes from now on, on every connection open now."""
        self._wire.is_silent = True
        self._wire = _Wire()

    def hang_up_at_next_word(self) -> None:
        """Close every connection open now as soon as anything comes over it."""
        self._wire.hangs_up = True
        self._wire = _Wire()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            self.connections += 1
            self._start(self._forward, near, far, self._wire)
            self._start(self._forward, far, near, self._wire)

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket, wire: _Wire) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if wire.hangs_up:
                    source.shutdown(socket.SHUT_RDWR)
                    break
                if not wire.is_silent:
                    target.sendall(data)
            if not wire.is_silent:
                target.shutdown(socket.SHUT_RDWR)
