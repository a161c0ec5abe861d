"""Forwards an address of this machine to a port on loopback, byte by byte. Knows no protocol."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Self

from local.web import LOOPBACK

_CHUNK = 65_536


class RelayError(Exception):
    """The address cannot be listened on; the text is one line and says why."""


class Relay:
    """Listens on a free port of address from `__enter__` to `__exit__`, and forwards to behind."""

    def __init__(self, address: str, behind: int) -> None:
        self._address = address
        self._behind = behind
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, self._address, 0)
        try:
            self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        except OSError as error:
            self._stop()
            raise RelayError(f"cannot listen on {self._address}: {error.strerror}") from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for open_one in others:
            open_one.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._behind)
            await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))
            return
        writer.close()


async def _pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Forward until source ends, then close target; a broken wire ends it, too."""
    try:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()
