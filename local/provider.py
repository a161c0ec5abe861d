"""The mail provider that the functions call: SES v2 over a real socket, with faults on the wire.

What it accepts is forwarded to moto's SES and kept in the inbox, and told in events if somebody
asked for them. It knows nothing of Postlease.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from botocore.exceptions import BotoCoreError, ClientError

from local.inbox import Inbox
from local.sendemail import InvalidFieldError, SendEmail, parse_send_email
from local.ses_events import EventKind, ses_event
from local.web import Front, Request, Response, json_response

if TYPE_CHECKING:
    from collections.abc import Callable

Mode: TypeAlias = Literal[
    "accept", "reject", "throttle", "pause", "unavailable", "stall", "lose_response", "slow"
]
MODES: tuple[Mode, ...] = get_args(Mode)
SEND_PATH = "/v2/email/outbound-emails"

_POLL_SECONDS = 0.01
_BODY_LIMIT = 60 * 1024 * 1024
_REFUSALS: dict[Mode, tuple[int, str, str]] = {
    "reject": (
        400,
        "MessageRejected",
        "Transaction failed: invalid content in the message to {to}.",
    ),
    "throttle": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    "pause": (400, "SendingPausedException", "Email sending is paused for this account."),
    "unavailable": (
        503,
        "ServiceUnavailableException",
        "The service is unavailable. The message was not accepted.",
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What the provider does to its next calls: times of them, or all until the next change."""

    mode: Mode = "accept"
    times: int | None = None
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Events:
    """What the provider tells about its next accepted mails: of times of them, or of all.

    Without seconds an event is out before the call is answered.
    """

    kinds: tuple[EventKind, ...] = ()
    times: int | None = None
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls so far: that came in, that were accepted, that are held at this moment."""

    requests: int
    accepted: int
    held: int


Forward: TypeAlias = "Callable[[SendEmail], str]"
"""Hands an accepted call on and returns the provider's id for the mail."""


Publish: TypeAlias = "Callable[[dict[str, Any]], None]"
"""Takes an EventBridge event to whoever wants it."""


class Provider:
    """An SES v2 endpoint. forward is moto's part; without it ids are made here."""

    def __init__(self, *, forward: Forward | None = None, publish: Publish | None = None) -> None:
        self.inbox = Inbox()
        self._forward = forward or (lambda _: uuid.uuid4().hex)
        self.publish = publish or (lambda _: None)
        self._events = Events()
        self._events_left: int | None = None
        self._timers: list[threading.Timer] = []
        self._changed = threading.Condition()
        self._fault = Fault()
        self._left: int | None = None
        self._requests = self._accepted = self._held = 0
        self._front = Front(self._respond, body_limit=_BODY_LIMIT)

    @property
    def url(self) -> str:
        """The endpoint's URL."""
        return f"http://{self._front.address}"

    @property
    def counts(self) -> Counts:
        """The counters at this moment."""
        with self._changed:
            return Counts(self._requests, self._accepted, self._held)

    @property
    def fault(self) -> Fault:
        """What the next call meets; times is what is left of it."""
        with self._changed:
            return Fault(self._fault.mode, self._left, self._fault.seconds)

    def set_fault(self, fault: Fault) -> None:
        """Meet the next calls with fault. Calls that are already held stay held."""
        with self._changed:
            self._fault, self._left = fault, fault.times

    @property
    def events(self) -> Events:
        """What is told about the next accepted mail; times is what is left of it."""
        with self._changed:
            return Events(self._events.kinds, self._events_left, self._events.seconds)

    def set_events(self, events: Events) -> None:
        """Tell these events about the mails that are accepted from now on."""
        with self._changed:
            self._events, self._events_left = events, events.times

    def wait_for(self, condition: Callable[[Counts], bool], *, seconds: float) -> bool:
        """Wait until the counters satisfy condition; False when they do not in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: condition(Counts(self._requests, self._accepted, self._held)), seconds
            )

    def close(self) -> None:
        """Cut every connection, tell nothing more, and end."""
        self._front.close()
        for timer in self._timers:
            timer.cancel()

    def _respond(self, request: Request) -> Response | None:
        if (request.method, request.path) != ("POST", SEND_PATH):
            return _error(404, "NotFoundException", "Only SendEmail is emulated here.")
        fault = self._next_fault()
        try:
            call = parse_send_email(request.body)
        except InvalidFieldError as error:
            return _error(400, "BadRequestException", str(error))
        if fault.mode in _REFUSALS:
            status, code, text = _REFUSALS[fault.mode]
            # SES's own texts quote addresses too.
            return _error(status, code, text.format(to=", ".join(call.to)))
        if fault.mode in {"stall", "slow"} and self._client_left(request, fault):
            return None
        response = self._accept(call)
        return None if fault.mode == "lose_response" else response

    def _next_fault(self) -> Fault:
        with self._changed:
            self._requests += 1
            self._changed.notify_all()
            if self._left == 0:
                return Fault()
            if self._left is not None:
                self._left -= 1
            return self._fault

    def _client_left(self, request: Request, fault: Fault) -> bool:
        """Hold the call: `slow` for its seconds, `stall` until the client goes."""
        accepted_at = time.monotonic() + fault.seconds
        self._count_held(1)
        try:
            while not request.client_is_gone():
                if fault.mode == "slow" and time.monotonic() >= accepted_at:
                    return False
                time.sleep(_POLL_SECONDS)
            return True
        finally:
            self._count_held(-1)

    def _count_held(self, change: int) -> None:
        with self._changed:
            self._held += change
            self._changed.notify_all()

    def _accept(self, call: SendEmail) -> Response:
        try:
            message_id = self._forward(call)
        except ClientError as error:
            answer: Any = error.response
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            return _error(status, answer["Error"]["Code"], answer["Error"]["Message"])
        except BotoCoreError:
            return _error(*_REFUSALS["unavailable"])
        self.inbox.add(
            provider_message_id=message_id,
            content=call.content,
            recipients={"to": call.to, "cc": call.cc, "bcc": call.bcc},
        )
        with self._changed:
            self._accepted += 1
            self._changed.notify_all()
        self._tell(call, message_id)
        return json_response(200, {"MessageId": message_id})

    def _tell(self, call: SendEmail, message_id: str) -> None:
        with self._changed:
            if self._events_left == 0:
                return
            if self._events_left is not None:
                self._events_left -= 1
            wanted = self._events
        for kind in wanted.kinds:
            event = ses_event(kind, call, message_id)
            if not wanted.seconds:
                self.publish(event)
                continue
            timer = threading.Timer(wanted.seconds, self.publish, [event])
            timer.daemon = True
            self._timers.append(timer)
            timer.start()


def _error(status: int, code: str, text: str) -> Response:
    answer = json_response(status, {"message": text, "__type": code})
    headers = (*answer.headers, ("x-amzn-errortype", code), ("x-amzn-requestid", str(uuid.uuid4())))
    return Response(status, answer.body, headers)
