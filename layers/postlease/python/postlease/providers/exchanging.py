"""One HTTP request over a connected socket, and its answer.

The ordinary answer (HTTP/1.1, a length, headers of one line each) is read here; whatever is odd in
any way is left to the standard library's parser, which takes five times as long for it.
"""

from __future__ import annotations

import http.client
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

LARGEST_ANSWER = 64 * 1024
"""Bytes of a body that are read; and of a head that are read here."""

_AT_ONCE = 256 * 1024
"""A request up to here leaves in one piece; a larger one is not copied for that."""

_PIECE = 65_536
_HEAD_ENDS = b"\r\n\r\n"
_FIRST_LINE = re.compile(r"HTTP/1\.1 ([2-5][0-9][0-9])(?: .*)?", re.ASCII)
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,9}", re.ASCII)
_WITHOUT_BODY = (204, 304)
_FIRST_FINAL = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. headers have lower-case names; content is what of it arrived, or fits."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


def ask(
    sock: socket.socket, head: bytes, body: bytes | None, wait: Callable[[], None]
) -> tuple[Answer, bool]:
    """Write one request, once, and read its answer; whether sock is good for another one then.

    head is whole, its empty line too. wait is called before each step, to set the socket's timeout
    or to raise. OSError and http.client.HTTPException: the request may have left, nobody knows.
    """
    wait()
    if body and len(body) > _AT_ONCE:
        sock.sendall(head)
        wait()
        sock.sendall(body)
    else:
        # In one packet, and in one step: the interpreter's lock changes hands at each.
        sock.sendall(head + (body or b""))
    seen = b""
    while _HEAD_ENDS not in seen:
        wait()
        piece = sock.recv(_PIECE)
        seen += piece
        # A line may end in a bare line feed; and a head has an end.
        if not piece or b"\n\n" in seen or len(seen) > LARGEST_ANSWER:
            return _by_the_library(sock, seen, wait)
    wait()
    ordinary = _ordinary(seen)
    if ordinary is None:
        return _by_the_library(sock, seen, wait)
    status, headers, length = ordinary
    content = seen[seen.index(_HEAD_ENDS) + len(_HEAD_ENDS) :]
    wanted = min(length, LARGEST_ANSWER)
    while len(content) < wanted:
        wait()
        piece = sock.recv(_PIECE)
        if not piece:
            break
        content += piece
    is_whole = len(content) == length and "close" not in headers.get("connection", "").lower()
    return Answer(status, headers, content[:wanted]), is_whole


def head(method: str, target: str, headers: Mapping[str, str], length: int | None) -> bytes:
    """The head of a request. ValueError for what would end a line of it."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _ordinary(seen: bytes) -> tuple[int, dict[str, str], int] | None:
    """Status, headers and length of an ordinary answer; None for any other."""
    first, *lines = seen[: seen.index(_HEAD_ENDS)].decode("latin-1").split("\r\n")
    match = _FIRST_LINE.fullmatch(first)
    fields = [_FIELD.fullmatch(line) for line in lines]
    if match is None or int(match[1]) in _WITHOUT_BODY:
        return None
    headers = {found[1].lower(): found[2] for found in fields if found}
    length = headers.get("content-length", "")
    # A field that is not of one line, or that stands twice, is missing here.
    is_plain = len(headers) == len(lines) and "transfer-encoding" not in headers
    if not is_plain or not _LENGTH.fullmatch(length):
        return None
    return int(match[1]), headers, int(length)


def _by_the_library(
    sock: socket.socket, seen: bytes, wait: Callable[[], None]
) -> tuple[Answer, bool]:
    answer = http.client.HTTPResponse(_Replayed(seen, sock, wait))  # type: ignore[arg-type]
    answer.begin()
    try:
        content = answer.read(LARGEST_ANSWER)
    except http.client.IncompleteRead as error:
        content = error.partial
    headers = {name.lower(): value for name, value in answer.getheaders()}
    # One whose answer was not read to its end cannot be asked again; nor one on which the answer is
    # still to come, behind a hint of it (1xx).
    is_whole = answer.status >= _FIRST_FINAL and answer.isclosed() and not answer.will_close
    answer.close()
    return Answer(answer.status, headers, content), is_whole


class _Replayed(io.RawIOBase):
    """A socket as the library's parser wants one, what was read already before what is to come."""

    def __init__(self, seen: bytes, sock: socket.socket, wait: Callable[[], None]) -> None:
        super().__init__()
        self._seen = seen
        self._sock = sock
        self._wait = wait

    def makefile(self, mode: str) -> io.BufferedReader:
        """The stream that is read; mode is always `rb`."""
        del mode
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """The next bytes, at most as many as buffer holds."""
        if not self._seen:
            self._wait()
            return self._sock.recv_into(buffer)
        size = min(len(buffer), len(self._seen))
        buffer[:size], self._seen = self._seen[:size], self._seen[size:]
        return size
