"""SES over its REST interface, by requests of our own: a quarter of what a call of the SDK costs.

What the SDK would send is sent, and what it would make of an answer is made of it; every test of
`ses` is asked of both. Retries there are none.
"""

from __future__ import annotations

import http.client
import json
import time
from binascii import b2a_base64
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from postlease.errors import UnavailableError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Unknown
from postlease.providers.connections import Connections, NoAnswerError, NotConnectedError
from postlease.providers.ses_answers import classify
from postlease.providers.ses_sdk import before_a_call
from postlease.providers.sigv4 import Signer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.config import TimeRules
    from postlease.providers.exchanging import Answer
    from postlease.providers.ses_account import Account

_SEND = "/v2/email/outbound-emails"
_ACCOUNT = "/v2/email/account"
_FIRST_REFUSAL = 301
"""What the SDK takes for an error from here on."""


class SignedClient:
    """Calls SES as account, over kept connections, from any number of threads."""

    def __init__(self, account: Account, times: TimeRules) -> None:
        self._account = account
        self._host = _host(account.endpoint)
        self._signer = Signer(service="ses", region=account.region)
        self.connections = Connections(account.endpoint, times, authorities=account.authorities)

    def send(self, fields: Mapping[str, Any], content: bytes) -> Outcome:
        """One SendEmail of content, with the request's other fields."""
        try:
            body = _body(fields, content)
        except TypeError:
            return Rejected("invalid_request", is_answer=False)
        began_at = time.monotonic()
        try:
            headers = self._headers("POST", _SEND, body)
        except NotConnectedError as error:
            return error.outcome
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing has left
            return before_a_call(error)
        try:
            answer = self.connections.ask("POST", _SEND, headers, body, began_at=began_at)
        except (NotConnectedError, NoAnswerError) as error:
            return error.outcome
        return _outcome(answer, sender=str(fields["FromEmailAddress"]))

    def sending_rate(self) -> float:
        """The account's MaxSendRate, 0 or less where it has none; UnavailableError."""
        began_at = time.monotonic()
        try:
            headers = self._headers("GET", _ACCOUNT, b"")
            answer = self.connections.ask("GET", _ACCOUNT, headers, began_at=began_at)
        except Exception as error:  # noqa: BLE001 - what credentials are asked of raises anything
            reason = type(error).__name__
        else:
            if answer.status < _FIRST_REFUSAL:
                quota = _document(answer.content).get("SendQuota")
                rate = quota.get("MaxSendRate") if isinstance(quota, dict) else None
                return float(rate) if isinstance(rate, int | float) else 0.0
            reason = str(answer.status)
        raise UnavailableError(f"SES tells no rate: {reason}")

    def _headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        headers = {"Host": self._host}
        if body:
            headers["Content-Type"] = "application/json"
        signed = self._signer.sign(
            self._account.credentials(),
            method=method,
            path=path,
            headers=headers,
            body=body,
            moment=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        )
        if not all(value.isascii() and value.isprintable() for value in signed.values()):
            raise NotConnectedError(Blocked("credentials_refused"))
        return {**signed, "User-Agent": "postlease"}


def _host(endpoint: str) -> str:
    """The value of `Host`: without a port that goes without saying, as the SDK writes it."""
    url = urlsplit(endpoint)
    plain = (url.scheme, url.port) in {("http", 80), ("https", 443)}
    return url.hostname or "" if plain else url.netloc.lower()


def _body(fields: Mapping[str, Any], content: bytes) -> bytes:
    """The request as JSON. content is encoded once, and copied once; TypeError for what is no text.

    JSON has numbers, and would write one where SES wants a text.
    """
    tags = fields["EmailTags"]
    if not all(isinstance(part, str) for tag in tags for part in tag.values()):
        raise TypeError
    others = json.dumps(fields).encode()
    encoded = b2a_base64(content, newline=False)
    return b'{"Content": {"Raw": {"Data": "%b"}}, %b' % (encoded, others[1:])


def _outcome(answer: Answer, *, sender: str) -> Outcome:
    if answer.status < _FIRST_REFUSAL:
        identifier = _document(answer.content).get("MessageId")
        if isinstance(identifier, str) and identifier:
            return Accepted(identifier)
        return Unknown("unreadable_answer")
    code, text = _refusal(answer)
    return classify(code=code, status=answer.status, text=text, sender=sender)


def _refusal(answer: Answer) -> tuple[str, str]:
    """Code and text of a refusal, from wherever one of AWS's answers has them."""
    status = answer.status
    content = answer.content.strip()
    if status >= 500 and (not content or content.startswith(b"<html>")):
        return str(status), http.client.responses.get(status, "")
    body = _document(content)
    code = answer.headers.get("x-amzn-errortype")
    if code is None:
        code = body.get("code", body.get("Code", body.get("__type", str(status))))
    # What is not JSON is a text all the same, of a proxy perhaps.
    text = (
        body.get("message", body.get("Message", "")) if body else content.decode(errors="replace")
    )
    return str(code), str(text)


def _document(content: bytes) -> dict[str, Any]:
    """The JSON object in content, or an empty one."""
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
        if isinstance(found, dict):
            return found
    return {}
