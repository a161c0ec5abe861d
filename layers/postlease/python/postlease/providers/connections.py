"""Kept HTTP connections to one endpoint, shared by all threads that send: one request, one answer.

Each step has its own meaning when it fails:
until the request is on its way nothing can have been accepted; from then on only an answer tells.
No request is ever repeated here, and no redirect followed.
"""

from __future__ import annotations

import functools
import http.client
import select
import ssl
import threading
import time
import weakref
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postlease.model import Outcome, Unknown, Unreachable
from postlease.providers import exchanging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.config import TimeRules
    from postlease.providers.exchanging import Answer

KEPT_SECONDS = 20.0
"""A connection that was idle for longer is not used again: servers close theirs after some time,
and what becomes of a request that crosses such an end on its way nobody could tell."""


class NotConnectedError(Exception):
    """Nobody was reached, so that nothing has left; outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class NoAnswerError(Exception):
    """The request may have left, and nothing readable came back; outcome says how."""

    def __init__(self, outcome: Unknown) -> None:
        super().__init__()
        self.outcome = outcome


class Connections:
    """Connections to the scheme, host and port of url.

    authorities: a file of those that certificates may come from; None for the system's. It keeps as
    many as were ever asked over at the same time.
    """

    def __init__(self, url: str, times: TimeRules, *, authorities: str | None = None) -> None:
        self._url = urlsplit(url)
        self._authorities = authorities
        self._connect_timeout = times.connect_timeout.total_seconds()
        self._read_timeout = times.read_timeout.total_seconds()
        self._lock = threading.Lock()
        self.idle: list[tuple[http.client.HTTPConnection, float]] = []
        """Kept ones, each with the monotonic second of its last use; the latest last."""
        weakref.finalize(self, _close_all, self.idle)

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        began_at: float,
    ) -> Answer:
        """Send one request, once, within connect and read timeout together.

        began_at: the monotonic second from which they count. NotConnectedError, NoAnswerError, and
        ValueError before anything leaves, for a header that is none.
        """
        deadline = began_at + self._connect_timeout + self._read_timeout
        given = {"Host": self._url.netloc, "Accept-Encoding": "identity", **headers}
        head = exchanging.head(method, target, given, None if body is None else len(body))
        connection = self._take()
        if time.monotonic() >= deadline:
            connection.close()
            raise NotConnectedError(Unreachable("connect_timeout"))
        try:
            return self._exchange(connection, head, body, deadline)
        except TimeoutError:
            outcome = Unknown("read_timeout")
        except OSError:  # http.client's RemoteDisconnected is one too
            outcome = Unknown("connection_closed")
        except http.client.HTTPException:
            outcome = Unknown("unreadable_answer")
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise NoAnswerError(outcome) from None

    def _take(self) -> http.client.HTTPConnection:
        """A kept connection that still lives, or a new one."""
        while True:
            with self._lock:
                if not self.idle:
                    break
                connection, used_at = self.idle.pop()
            is_young = time.monotonic() - used_at < KEPT_SECONDS
            # Nobody speaks to an idle client but to say goodbye: a readable socket is a closed one.
            if is_young and connection.sock is not None and not _is_readable(connection.sock):
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        host, port, timeout = self._url.hostname or "", self._url.port, self._connect_timeout
        if self._url.scheme == "https":
            try:
                context = _tls(self._authorities, ssl.get_default_verify_paths())
            except OSError:
                raise NotConnectedError(Unreachable("tls_failed")) from None
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            connection.connect()
        except TimeoutError:
            outcome = Unreachable("connect_timeout")
        except ssl.SSLError:
            outcome = Unreachable("tls_failed")
        except OSError:
            outcome = Unreachable("connect_failed")
        else:
            return connection
        connection.close()
        raise NotConnectedError(outcome)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        head: bytes,
        body: bytes | None,
        deadline: float,
    ) -> Answer:
        """The request out and its answer in. From here on silence is unknown."""

        def wait() -> None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.sock.settimeout(min(left, self._read_timeout))

        answer, is_good = exchanging.ask(connection.sock, head, body, wait)
        if is_good:
            with self._lock:
                self.idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return answer


@functools.lru_cache(maxsize=4)
def _tls(authorities: str | None, _defaults: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    """Reading the authorities takes 20 ms, and a doorbell has a provider for each of its batches.

    _defaults: where the system's are, which variables may change.
    """
    return ssl.create_default_context(cafile=authorities)


def _is_readable(sock: object) -> bool:
    # Unlike select, it takes descriptors of any number.
    polled = select.poll()
    polled.register(sock, select.POLLIN)  # type: ignore[arg-type]
    return bool(polled.poll(0))


def _close_all(connections: list[tuple[http.client.HTTPConnection, float]]) -> None:
    while connections:
        connections.pop()[0].close()
