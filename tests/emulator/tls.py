"""TLS in front of a PostgreSQL whose build has none: the functions insist on an encrypted wire.

What does not begin with PostgreSQL's SSLRequest is hung up on, so a login that came through here
was encrypted, with the certificate that its client asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl

LOOPBACK = "127.0.0.1"

# Length and code of the one message that a client sends before TLS (protocol 3.0, SSLRequest).
_SSL_REQUEST = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")
_CHUNK = 65_536


class TlsFront:
    """Forwards to a loopback port what comes over TLS, from `__enter__` to `__exit__`."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._behind = port
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0
        self.encrypted = 0
        self.refused = 0

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, LOOPBACK, 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
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
        with contextlib.suppress(OSError, EOFError):
            if await reader.readexactly(len(_SSL_REQUEST)) == _SSL_REQUEST:
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self._context)
                self.encrypted += 1
                far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._behind)
                await asyncio.gather(_pour(reader, far_writer), _pour(far_reader, writer))
                return
            self.refused += 1
        writer.close()


async def _pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Forward until source ends, then say so to target; a broken wire ends it, too."""
    try:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()
