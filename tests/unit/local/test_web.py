"""A front that ran out of something answers whoever comes when it has it again."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from local import web
from local.web import Front, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(_: Request) -> Response:
    """Nothing to say."""
    return Response(204)


def status_of(front: Front) -> int:
    """What one request on a connection of its own is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", front.port, timeout=20)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def after_failures(call: Callable[..., Any], *errors: Exception) -> Callable[..., Any]:
    """call, once each of errors was raised."""
    left = list(errors)

    def first_fails(*given: Any) -> Any:
        if left:
            raise left.pop(0)
        return call(*given)

    return first_fails


def test_a_front_without_descriptors_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [OSError(number, "no") for number in (errno.EMFILE, errno.ECONNABORTED)]
    accept = after_failures(socket.socket.accept, *refused)
    monkeypatch.setattr(socket.socket, "accept", accept)
    front = Front(answer)
    try:
        assert status_of(front) == 204
    finally:
        front.close()


def test_a_front_without_threads_drops_one_connection_and_listens_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    front = Front(answer)
    start = after_failures(threading.Thread.start, RuntimeError("can't start new thread"))

    class Thread(threading.Thread):
        def start(self) -> None:
            start(self)

    monkeypatch.setattr(web, "threading", SimpleNamespace(Thread=Thread))
    try:
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            status_of(front)
        assert status_of(front) == 204
    finally:
        front.close()


def test_a_closed_front_accepts_nobody() -> None:
    front = Front(answer)
    port = front.port
    front.close()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=20)
