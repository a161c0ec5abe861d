"""Who comes through the front came over TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from tests.doubles.certificates import Certificate
from tests.emulator.tls import LOOPBACK, TlsFront

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says again what one caller said."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    while data := connection.recv(100):
                        connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_what_is_said_over_tls_arrives_and_is_answered(echo: int, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate.path))
    with (
        TlsFront(echo, certificate.server_context()) as front,
        socket.create_connection((LOOPBACK, front.port)) as plain,
    ):
        plain.sendall(SSL_REQUEST)
        assert plain.recv(1) == b"S"
        with trust.wrap_socket(plain, server_hostname="localhost") as wire:
            wire.sendall(b"hello")
            assert wire.recv(100) == b"hello"
        assert (front.encrypted, front.refused) == (1, 0)


def test_who_does_not_ask_for_tls_is_hung_up_on(echo: int, tmp_path: Path) -> None:
    with (
        TlsFront(echo, Certificate(tmp_path).server_context()) as front,
        socket.create_connection((LOOPBACK, front.port)) as plain,
    ):
        plain.sendall(bytes(8))
        assert plain.recv(1) == b""
        assert (front.encrypted, front.refused) == (0, 1)
