"""The desk behind three protocols, each a real socket server: SES v2, idempotency keys, SMTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from local.provider import SEND_PATH
from local.sendemail import InvalidFieldError, parse_send_email
from local.ses_events import ses_event
from local.web import Front, Request, Response, json_response
from postlease.model import parse_event_id
from tests.chaos.ledger import Call
from tests.chaos.relay import SmtpDouble, reader_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.desk import Desk, Word
    from tests.chaos.ledger import Mail
    from tests.chaos.plan import Provider

RESEND_KEY_NAME = "chaos-resend-api-key"
RESEND_KEY = "re_chaos_only"
ACCOUNT_RATE = 5_000
"""Recipients a second: more than the machine sends, so that what is measured is not the gate."""

_ACCOUNT_PATH = "/v2/email/account"
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
        with socket.socket() as placeholder:
            placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Bound and not listening: calls are refused, and nobody else is given the port.
            placeholder.bind(("127.0.0.1", self._port))
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
        return Call(message, reader_number(address), attempt, port, time.time(), key)


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


def _resend_error(status: int, name: str, text: str) -> Response:
    return json_response(status, {"statusCode": status, "name": name, "message": text})


DOUBLES: dict[Provider, Callable[[Desk], Double]] = {
    "ses": SesDouble,
    "idempotent": IdempotentDouble,
    "smtp": SmtpDouble,
}
