"""The desk behind three protocols, each a real socket server: SES v2, idempotency keys, SMTP."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast
from uuid import UUID

from local.provider import SEND_PATH
from local.sendemail import InvalidFieldError, parse_send_email
from local.ses_events import ses_event
from local.web import Front, Request, Response, json_response
from postlease.model import parse_event_id
from tests.chaos.ledger import Call
from tests.doubles.smtp_server import SmtpServer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.chaos.desk import Desk, Word
    from tests.chaos.ledger import Mail
    from tests.chaos.plan import Provider

RESEND_KEY_NAME = "chaos-resend-api-key"
RESEND_KEY = "re_chaos_only"
ACCOUNT_RATE = 5_000
"""Recipients a second: more than the machine sends, so that what is measured is not the gate."""

_ACCOUNT_PATH = "/v2/email/account"
_READER = re.compile(r"reader([0-9]+)@")
_HEADER = re.compile(rb"^(X-Postlease-Id|X-Postlease-Attempt|Message-ID): (\S+)\r?$", re.MULTILINE)
_SES: dict[Word, tuple[int, str, str]] = {
    "rejected": (400, "MessageRejected", "Transaction failed: the message has invalid content."),
    "throttled": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    "paused": (400, "SendingPausedException", "Email sending is paused for this account."),
    "unavailable": (
        503,
        "ServiceUnavailableException",
        "The service is unavailable. The message was not accepted.",
    ),
}
_RESEND: dict[Word, tuple[int, str, str]] = {
    "rejected": (422, "validation_error", "The message is invalid."),
    "throttled": (429, "rate_limit_exceeded", "Too many requests."),
    "paused": (403, "suspended_api_key", "This API key is suspended."),
    "unavailable": (503, "service_unavailable", "Nothing was begun."),
}
_SMTP: dict[Word, bytes] = {
    "accepted": b"250 2.0.0 kept",
    "rejected": b"554 5.6.0 the content is refused",
    "throttled": b"451 4.7.1 try again later",
    "paused": b"421 4.3.2 no service now",
    "unavailable": b"451 4.3.0 not now",
}


class Double(Protocol):
    """A server that listens from construction to `close`."""

    @property
    def settings(self) -> dict[str, str]:
        """The functions' variables that lead to it."""
        ...

    def die(self, seconds: float) -> None:
        """Cut every connection and refuse new ones for seconds."""
        ...

    def close(self) -> None:
        """End."""
        ...


class _Http:
    """What the HTTP doubles share: a front that can die and come back on its port."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._front = Front(self._respond)
        self._port = desk.server = self._front.port

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def die(self, seconds: float) -> None:
        """As in `Double`."""
        self._front.close()
        time.sleep(seconds)
        self._front = Front(self._respond, port=self._port)

    def close(self) -> None:
        """As in `Double`."""
        self._front.close()

    def _respond(self, request: Request) -> Response | None:
        raise NotImplementedError

    def _call(
        self, request: Request, message: UUID, address: str, attempt: int | None, key: str | None
    ) -> Call:
        port = int(request.connection.getpeername()[1])
        return Call(message, _number(address), attempt, port, time.time(), key)


class SesDouble(_Http):
    """SES v2. It keeps no keys: each accepted call is a mail, and told as an event."""

    @property
    def settings(self) -> dict[str, str]:
        """It is the only service that is not moto's."""
        return {"MAIL_PROVIDER": "ses", "AWS_ENDPOINT_URL_SESV2": self._url}

    def _respond(self, request: Request) -> Response | None:
        if request.path == _ACCOUNT_PATH:
            quota = {"Max24HourSend": 1e9, "MaxSendRate": ACCOUNT_RATE, "SentLast24Hours": 0.0}
            account = {"SendingEnabled": True, "ProductionAccessEnabled": True}
            return json_response(
                200, account | {"EnforcementStatus": "HEALTHY", "SendQuota": quota}
            )
        if request.path != SEND_PATH:
            return json_response(404, {"message": "not emulated"})
        try:
            sent = parse_send_email(request.body)
        except InvalidFieldError as error:
            return json_response(400, {"message": str(error)})
        tags = {tag["Name"]: tag["Value"] for tag in sent.body["EmailTags"]}
        call = self._call(
            request, UUID(tags["postlease-id"]), sent.to[0], int(tags["postlease-attempt"]), None
        )

        def tell(mail: Mail) -> None:
            self._desk.publish(call, json.dumps(ses_event("Send", sent, mail.provider_id)))

        word, provider_id = self._desk.serve(call, is_gone=request.client_is_gone, on_accepted=tell)
        if word == "silence":
            return None
        if word == "accepted":
            return json_response(200, {"MessageId": provider_id})
        status, code, text = _SES[word]
        answer = json_response(status, {"message": text, "__type": code})
        return Response(status, answer.body, (*answer.headers, ("x-amzn-errortype", code)))


class IdempotentDouble(_Http):
    """Resend's API. One key is one mail; what differs under it is refused, what runs is told so."""

    def __init__(self, desk: Desk) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._bodies: dict[str, bytes] = {}
        super().__init__(desk)

    @property
    def settings(self) -> dict[str, str]:
        """The key's secret goes by its name: it is made after the functions are defined."""
        return {
            "MAIL_PROVIDER": "resend",
            "RESEND_ENDPOINT": self._url,
            "RESEND_API_KEY_SECRET_ARN": RESEND_KEY_NAME,
        }

    def _respond(self, request: Request) -> Response | None:
        key = request.header("idempotency-key")
        if (request.method, request.path) != ("POST", "/emails") or not key:
            return _resend_error(400, "missing_required_field", "No such call here.")
        if request.header("authorization") != f"Bearer {RESEND_KEY}":
            return _resend_error(401, "invalid_api_key", "The API key is invalid.")
        with self._lock:
            if key in self._running:
                return _resend_error(409, "concurrent_idempotent_requests", "Still running.")
            if self._bodies.get(key, request.body) != request.body:
                return _resend_error(409, "invalid_idempotent_request", "Another body.")
            self._running.add(key)
        try:
            return self._send(request, key)
        finally:
            with self._lock:
                self._running.discard(key)

    def _send(self, request: Request, key: str) -> Response | None:
        sent: dict[str, Any] = json.loads(request.body)
        message = parse_event_id(str(sent["headers"]["X-Postlease-Id"]))
        if message is None:
            return _resend_error(422, "validation_error", "A message that is not ours.")
        call = self._call(request, message, sent["to"][0], None, key)
        word, provider_id = self._desk.serve(call, is_gone=request.client_is_gone)
        if provider_id or word == "silence":
            with self._lock:
                self._bodies[key] = request.body
        if word == "silence":
            return None
        if word == "accepted":
            return json_response(200, {"id": provider_id})
        return _resend_error(*_RESEND[word])


class SmtpDouble:
    """An SMTP relay. It may lose its last answer, and names a mail by nothing but its headers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._relay = _Relay(desk)
        self._relay.__enter__()
        desk.server = self._relay.port

    @property
    def settings(self) -> dict[str, str]:
        """Plain: encryption is tested elsewhere."""
        return {
            "MAIL_PROVIDER": "smtp",
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(self._relay.port),
            "SMTP_SECURITY": "none",
        }

    def die(self, seconds: float) -> None:
        """Hang up on everybody who comes."""
        self._relay.is_dead = True
        time.sleep(seconds)
        self._relay.is_dead = False

    def close(self) -> None:
        """Wait for the conversations' ends."""
        self._relay.__exit__(None, None, None)


class _Relay(SmtpServer):
    is_dead = False

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._local = threading.local()

    def _serve(self, connection: socket.socket) -> None:
        if self.is_dead:
            connection.close()
            return
        with suppress(OSError):
            self._local.connection = connection
            self._local.port = connection.getpeername()[1]
            super()._serve(connection)

    def _take_text(self, read: Callable[[], bytes], say: Callable[[bytes], None]) -> None:
        lines = []
        while (line := read()) != b".\r\n":
            if not line:
                raise ConnectionError("the client left in the middle of its text")
            lines.append(line)
        text = b"".join(lines)
        headers = dict(_HEADER.findall(text))
        message = parse_event_id(headers[b"X-Postlease-Id"].decode())
        if message is None:
            raise ConnectionError("a mail that is not ours")
        number = _number(text.decode("ascii"))
        call = Call(
            message,
            number,
            int(headers[b"X-Postlease-Attempt"]),
            self._local.port,
            time.time(),
            provider_id=headers[b"Message-ID"].decode(),
        )
        connection = cast("socket.socket", self._local.connection)
        word, _ = self._desk.serve(call, is_gone=_gone(connection))
        if word == "silence":
            raise ConnectionError("planned silence")
        say(_SMTP[word])


def _gone(connection: socket.socket) -> Callable[[], bool]:
    request = Request("", "", (), b"", "", connection)
    return request.client_is_gone


def _number(text: str) -> int:
    found = _READER.search(text)
    if found is None:
        raise ValueError("a mail to nobody that we know")
    return int(found[1])


def _resend_error(status: int, name: str, text: str) -> Response:
    return json_response(status, {"statusCode": status, "name": name, "message": text})


DOUBLES: dict[Provider, Callable[[Desk], Double]] = {
    "ses": SesDouble,
    "idempotent": IdempotentDouble,
    "smtp": SmtpDouble,
}
