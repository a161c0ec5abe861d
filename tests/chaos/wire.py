"""A proxy in front of PostgreSQL that reads the statements in what passes, by their first line.

It can stop a statement before it is sent, between its work and its commit, and before its answer:
the extended protocol commits a lone statement at Sync, so a Flush in Sync's place shows what was
done while it is not yet done. What happens there is decided by a `Watch`.
"""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOPBACK = "127.0.0.1"
_TITLE = re.compile(rb"-- ([a-z_]+\.[a-z_]+)\n")
_UUID = re.compile(rb"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ROW_ID = slice(11, 47)
"""Of a DataRow: past the code, its length, the number of columns and the first one's length."""

_NO_TLS = (80_877_103, 80_877_104)
_SYNC, _FLUSH = b"S\0\0\0\4", b"H\0\0\0\4"
_WHOLE_REQUESTS = (b"P", b"B", b"D", b"E", b"C")


@dataclass(slots=True)
class Statement:
    """One titled statement on its way. ids: what its parameters, or for a claim its rows, name."""

    title: str
    pid: int
    ids: set[UUID] = field(default_factory=set)
    rows: int = 0


class Watch(Protocol):
    """Told of each titled statement; every answer True means: go on. False cuts the connection."""

    def asked(self, statement: Statement) -> bool:
        """The statement is about to be sent. May wait; the worker's own time goes on."""
        ...

    def stops_at_commit(self, statement: Statement) -> bool:
        """Whether to ask `at_commit`."""
        ...

    def at_commit(self, statement: Statement) -> bool:
        """The server did the work, and waits for the word to commit it."""
        ...

    def answered(self, statement: Statement) -> bool:
        """The server committed; the worker does not know yet."""
        ...


class Wire:
    """Listens from `__enter__` to `__exit__`. Until watch is set, everything just passes."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.watch: Watch | None = None
        self.owner_of: Callable[[int], int | None] = lambda _: None
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)

    @property
    def port(self) -> int:
        """Where to connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._open, args=(near, address[1]), daemon=True).start()

    def _open(self, near: socket.socket, port: int) -> None:
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Link(self, near, far, self.owner_of(port)).run()


class _Link:
    """One connection: two threads, one for each direction."""

    def __init__(
        self, wire: Wire, near: socket.socket, far: socket.socket, pid: int | None
    ) -> None:
        self._wire = wire
        self._near, self._far = near, far
        self._pid = pid
        self._statement: Statement | None = None
        self._at_commit = False

    def run(self) -> None:
        down = threading.Thread(target=self._guarded, args=(self._downstream,), daemon=True)
        down.start()
        self._guarded(self._upstream)
        down.join()
        self._near.close()
        self._far.close()

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            with suppress(OSError):
                run()
        finally:
            for end in (self._near, self._far):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _upstream(self) -> None:
        self._greet()
        request = bytearray()
        for kind, frame in _frames(self._near):
            request += frame
            if kind == b"P" and (title := _title(frame)) and self._pid is not None:
                self._statement = Statement(title, self._pid)
            elif kind == b"B" and self._statement is not None:
                self._statement.ids = {UUID(found.decode()) for found in _UUID.findall(frame)}
            elif kind == b"S" and not self._ask(request):
                return
            if kind not in _WHOLE_REQUESTS:
                self._far.sendall(request)
                request.clear()

    def _greet(self) -> None:
        """Refuse encryption, so that the conversation can be read, and pass the start on."""
        while True:
            head = _exactly(self._near, 8)
            if int.from_bytes(head[4:], "big") not in _NO_TLS:
                break
            self._near.sendall(b"N")
        rest = _exactly(self._near, int.from_bytes(head[:4], "big") - 8)
        self._far.sendall(head + rest)

    def _ask(self, request: bytearray) -> bool:
        """Put a whole request before the watch; False ends the connection."""
        statement, watch = self._statement, self._wire.watch
        if statement is None or watch is None:
            self._statement = None
            return True
        if not watch.asked(statement):
            return False
        if watch.stops_at_commit(statement):
            self._at_commit = True
            request[-len(_SYNC) :] = _FLUSH
        return True

    def _downstream(self) -> None:
        answer = bytearray()
        for kind, frame in _frames(self._far):
            answer += frame
            statement, watch = self._statement, self._wire.watch
            if statement is None or watch is None:
                if kind in (b"Z", b"R", b"N", b"E", b"S", b"G"):
                    self._near.sendall(answer)
                    answer.clear()
                continue
            if kind == b"D" and statement.title.startswith("outbox.claim"):
                statement.ids.add(UUID(frame[_ROW_ID].decode()))
            elif kind == b"C":
                statement.rows = int(frame[5:-1].split()[-1])
                if self._at_commit and not watch.at_commit(statement):
                    return
            if kind in (b"C", b"E") and self._at_commit:
                self._at_commit = False
                self._far.sendall(_SYNC)
            if kind == b"Z":
                self._statement = None
                if not watch.answered(statement):
                    return
                self._near.sendall(answer)
                answer.clear()
        self._near.sendall(answer)  # a server that goes down says so


def _frames(source: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Code and whole frame of each message, until the stream ends."""
    kept = bytearray()
    while data := source.recv(65_536):
        kept += data
        while len(kept) >= 5:
            length = 1 + int.from_bytes(kept[1:5], "big")
            if len(kept) < length:
                break
            frame = bytes(kept[:length])
            del kept[:length]
            yield frame[:1], frame


def _title(parse: bytes) -> str | None:
    text = parse[5:].partition(b"\0")[2]
    found = _TITLE.match(text)
    return found[1].decode() if found else None


def _exactly(source: socket.socket, number: int) -> bytes:
    data = b""
    while len(data) < number:
        part = source.recv(number - len(data))
        if not part:
            raise ConnectionError("the client left during its greeting")
        data += part
    return data
