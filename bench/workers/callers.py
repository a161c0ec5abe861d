"""Callers of the sign-up route in a process of their own: `python -m bench.workers.callers <JSON>`.

The JSON says `url`, `seconds`, `prefix` of the addresses, `connections` at most, and `rate`: so
many requests a second whatever becomes of those before, or 0 for one after the other on each
connection. Connections are kept, as a proxy keeps them; what finds none free is not sent, and
counted. Says how each status was answered, and the addresses whose answer was 202.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench.workers import arranging

PATIENCE_SECONDS = 35.0
"""A request that is older has no answer: API Gateway gives up after 30 s."""
_TICK_SECONDS = 0.005
_ACCEPTED = 202


class NoAnswerError(Exception):
    """The connection ended before an answer was whole."""


@dataclass(slots=True)
class Load:
    """What was asked, and what came back."""

    answers: Counter[int] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    unanswered: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    not_sent: int = 0


class Caller:
    """One connection, opened with its first request and anew after one that failed."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def sign_up(self, email: str) -> int:
        """The status of the answer. OSError, TimeoutError or NoAnswerError if there is none."""
        body = json.dumps({"email": email})
        head = (
            f"POST /v1/signups HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self._host, self._port)
                reader, writer = self._streams
                writer.write((head + body).encode())
                return await _status(reader)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of one answer, which is read to its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = head.partition("\r\ncontent-length:")[2].partition("\r\n")[0]
        await reader.readexactly(int(length or 0))
    except asyncio.IncompleteReadError as error:
        raise NoAnswerError from error
    return int(head.split(" ", 2)[1])


class Crowd:
    """All callers, and what they were told."""

    def __init__(self, asked: dict[str, Any]) -> None:
        where = urlsplit(asked["url"])
        self.load = Load()
        self._prefix = asked["prefix"]
        self._free = [
            Caller(where.hostname or "", where.port or 80) for _ in range(asked["connections"])
        ]
        self._calls: set[asyncio.Task[None]] = set()

    async def call(self, seconds: float, rate: float) -> tuple[float, float]:
        """Ask for so long; the seconds until the last question and until the last answer."""
        started = time.perf_counter()
        if rate:
            await self._by_the_clock(started, seconds, rate)
        else:
            await asyncio.gather(
                *(self._in_turn(caller, started + seconds) for caller in list(self._free))
            )
        passed = time.perf_counter() - started
        await asyncio.gather(*self._calls)
        for caller in self._free:
            caller.close()
        return passed, time.perf_counter() - started

    async def _in_turn(self, caller: Caller, until: float) -> None:
        while time.perf_counter() < until:
            await self._one(caller)

    async def _by_the_clock(self, started: float, seconds: float, rate: float) -> None:
        due = 0
        while (passed := time.perf_counter() - started) < seconds:
            while due < passed * rate:
                due += 1
                if not self._free:
                    self.load.not_sent += 1
                    continue
                # Last in, first out: a connection that was just used is warm.
                call = asyncio.create_task(self._borrow(self._free.pop()))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)
            await asyncio.sleep(_TICK_SECONDS)

    async def _borrow(self, caller: Caller) -> None:
        try:
            await self._one(caller)
        finally:
            self._free.append(caller)

    async def _one(self, caller: Caller) -> None:
        load = self.load
        email = f"{self._prefix}-{load.asked}@example.com"
        load.asked += 1
        started = time.perf_counter()
        try:
            status = await caller.sign_up(email)
        except (OSError, TimeoutError, NoAnswerError) as error:
            load.unanswered[type(error).__name__] += 1
            return
        load.milliseconds.append((time.perf_counter() - started) * 1_000)
        load.answers[status] += 1
        if status == _ACCEPTED:
            load.accepted.append(email)


def main() -> None:
    """Be ready, call, say how it went."""
    line, asked = arranging.Line(), arranging.given()
    if not line.ready():
        return
    crowd = Crowd(asked)
    seconds, ended = asyncio.run(crowd.call(asked["seconds"], asked["rate"]))
    load = crowd.load
    line.done(
        {
            "seconds": seconds,
            "ended": ended,
            "answers": sorted(load.answers.items()),
            "milliseconds": load.milliseconds,
            "accepted": load.accepted,
            "unanswered": dict(load.unanswered),
            "not_sent": load.not_sent,
        }
    )


if __name__ == "__main__":
    main()
