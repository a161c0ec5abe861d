"""An answer is the same whichever parser reads it: ours an ordinary one, the library's the rest."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from postlease.providers import exchanging

if TYPE_CHECKING:
    from postlease.providers.exchanging import Answer

OK = b"HTTP/1.1 200 OK\r\n"
ORDINARY = [
    OK + b"Content-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 400 Bad Request\r\nX-Amzn-ErrorType: Bad:x\r\ncontent-length:2\r\n\r\n{}",
    b"HTTP/1.1 500\r\nContent-Length: 0\r\n\r\n",
    OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}",
    OK + b"Content-Length: 9\r\n\r\n{}",
    OK + b"Content-Length: 70000\r\n\r\n" + b"x" * 70_000,
]
ODD = [
    OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    OK + b"\r\n{}",
    OK + b"A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}",
    OK.replace(b"\r", b"") + b"Content-Length: 2\n\n{}",
    OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
]


def read(said: bytes) -> tuple[Answer, bool]:
    """What is made of an answer after which the other side closes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(10)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        found = exchanging.ask(ours, b"GET / HTTP/1.1\r\n\r\n", None, lambda: ours.settimeout(10))
        assert theirs.recv(100) == b"GET / HTTP/1.1\r\n\r\n"
    return found


@pytest.mark.parametrize("said", ORDINARY)
def test_an_ordinary_answer_is_what_the_library_makes_of_it(said: bytes) -> None:
    with patch.object(exchanging, "_by_the_library", side_effect=AssertionError):
        ours = read(said)
    with patch.object(exchanging, "_ordinary", return_value=None):
        theirs = read(said)
    assert ours[0] == theirs[0]


@pytest.mark.parametrize(
    ("said", "is_good"),
    list(zip(ORDINARY, [True, True, True, False, False, True], strict=True)),
)
def test_a_connection_is_good_for_another_request_after_a_whole_answer(
    said: bytes, is_good: bool
) -> None:
    assert read(said)[1] is is_good


@pytest.mark.parametrize("said", ODD)
def test_any_other_answer_is_read_by_the_library(said: bytes) -> None:
    answer, _ = read(said)
    assert answer.content in {b"{}", b""}
    left_to_it = patch.object(exchanging, "_by_the_library", side_effect=LookupError)
    with left_to_it, pytest.raises(LookupError):
        read(said)


@pytest.mark.parametrize("said", [b"", b"<html>\r\n", b"HTTP/1.1 2xx OK\r\n\r\n"])
def test_what_is_no_answer_raises(said: bytes) -> None:
    with pytest.raises((OSError, http.client.HTTPException)):
        read(said)


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n"]
)
def test_a_hint_of_an_answer_leaves_no_connection_on_which_another_may_read_it(said: bytes) -> None:
    answer, is_good = read(said)
    assert answer.status < 200
    assert not is_good


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n", b"x"),
        (OK + b"Content-Length: 100\r\n\r\n", b"x"),
    ],
)
def test_an_answer_that_comes_in_drops_is_waited_for_as_long_as_any(
    head: bytes, piece: bytes
) -> None:
    """Each step asks whether there is still time, whoever reads."""
    ours, theirs = socket.socketpair()
    steps = 0

    def wait() -> None:
        nonlocal steps
        steps += 1
        if steps == 9:
            raise EOFError
        if steps > 2:
            theirs.sendall(piece)
        ours.settimeout(10)

    with ours, theirs:
        theirs.sendall(head)
        with pytest.raises(EOFError):
            exchanging.ask(ours, b"GET / HTTP/1.1\r\n\r\n", None, wait)


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\n", "\r"])
def test_no_header_begins_another_one(value: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        exchanging.head("POST", "/", {"Host": "x", "A": value}, 0)
