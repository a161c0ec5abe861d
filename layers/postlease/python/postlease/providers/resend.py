"""Resend's public HTTP API: one `POST /emails` under the message's own key, and no retry.

Resend keeps an Idempotency-Key (1 to 256 characters) for 24 hours: the same request under it is
answered as before and sent once. So what was never answered may be asked again.

Spoken with the standard library's client, because each step has its own meaning when it fails:
until the request is on its way nothing can have been accepted; from then on only an answer tells.
"""

from __future__ import annotations

import functools
import http.client
import json
import select
import ssl
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postlease import secret_store
from postlease.config import LARGEST_MAILS
from postlease.errors import UnavailableError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Unknown, Unreachable
from postlease.providers.resend_answers import classify
from postlease.providers.resend_fields import fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.config import Resend, TimeRules
    from postlease.model import OutgoingMail

LARGEST = LARGEST_MAILS["resend"]
"""More would be refused after the upload."""

_LARGEST_ANSWER = 64 * 1024


class _NotConnectedError(Exception):
    """Nobody was reached; outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def stored_api_key(arn: str) -> Callable[[], str]:
    """A way to the API key in the secret behind arn, whose text is the key and nothing else."""
    return lambda: secret_store.read_text(arn).strip()


class ResendProvider:
    """Sends through one account over kept connections. api_key is asked for at every mail."""

    name = "resend"
    keeps_keys = True

    def __init__(self, account: Resend, times: TimeRules, *, api_key: Callable[[], str]) -> None:
        self._url = urlsplit(account.endpoint)
        self._connect_timeout = times.connect_timeout.total_seconds()
        self._patience = (times.connect_timeout + times.read_timeout).total_seconds()
        self._read_timeout = times.read_timeout.total_seconds()
        self._api_key = api_key
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    def get_ready(self) -> None:
        """Nothing to do: the connection is made by the first mail of each thread."""

    def sending_rate(self) -> None:
        """Resend tells none: it counts requests, and answers 429 to what is too fast."""

    def send(self, mail: OutgoingMail) -> Outcome:
        """One request, one answer; see `resend_answers` for what the answers mean."""
        if len(mail.content) > LARGEST:
            return Rejected("too_large", is_answer=False)
        deadline = time.monotonic() + self._patience
        try:
            api_key = self._api_key()
        except UnavailableError:
            return Unreachable("credentials_unavailable")
        if not (api_key.isascii() and api_key.isprintable()):
            return Blocked("credentials_refused")
        body = json.dumps(fields(mail)).encode()
        headers = {
            "Authorization": f"Bearer {api_key}",
            "Content-Type": "application/json",
            "Idempotency-Key": mail.idempotency_key,
            "User-Agent": "postlease",  # without one the API refuses
        }
        try:
            connection = self._take()
        except _NotConnectedError as error:
            return error.outcome
        try:
            status, content = self._ask(connection, body, headers, deadline)
        except Exception as error:
            connection.close()
            if isinstance(error, OSError | http.client.HTTPException):
                return _without_answer(error)
            raise
        return _outcome(status, content, key=mail.idempotency_key)

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _take(self) -> http.client.HTTPConnection:
        """A kept connection that still lives, or a new one."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            # Nobody speaks to an idle client but to say goodbye: a readable socket is a closed one.
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        connection = (
            http.client.HTTPSConnection(
                host, port, timeout=self._connect_timeout, context=self._tls
            )
            if self._url.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self._connect_timeout)
        )
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
        raise _NotConnectedError(outcome)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        body: bytes,
        headers: dict[str, str],
        deadline: float,
    ) -> tuple[int, bytes]:
        """The answer's status and body. From here on silence is unknown."""
        self._wait_at_most(connection, deadline)
        connection.request("POST", f"{self._url.path}/emails", body, headers)
        self._wait_at_most(connection, deadline)
        answer = connection.getresponse()
        content = answer.read(_LARGEST_ANSWER)
        # One whose answer was not read to its end cannot be asked again.
        if answer.isclosed() and connection.sock is not None:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        return answer.status, content

    def _wait_at_most(self, connection: http.client.HTTPConnection, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.sock.settimeout(min(left, self._read_timeout))


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _without_answer(error: OSError | http.client.HTTPException) -> Outcome:
    """What it means that a request left and nothing readable came back."""
    match error:
        case TimeoutError():
            return Unknown("read_timeout")
        case OSError():  # http.client's RemoteDisconnected is one too
            return Unknown("connection_closed")
        case _:
            return Unknown("unreadable_answer")


def _outcome(status: int, content: bytes, *, key: str) -> Outcome:
    answer: dict[str, object] = {}
    with suppress(ValueError):
        parsed = json.loads(content)
        answer = parsed if isinstance(parsed, dict) else {}
    if status in range(200, 300):
        identifier = answer.get("id")
        if isinstance(identifier, str) and identifier:
            return Accepted(identifier)
        return Unknown("unreadable_answer")
    return classify(
        name=str(answer.get("name") or ""),
        status=status,
        text=str(answer.get("message") or ""),
        key=key,
    )
