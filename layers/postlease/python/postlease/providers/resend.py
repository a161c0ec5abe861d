"""Resend's public HTTP API: one `POST /emails` under the message's own key, and no retry.

Resend keeps an Idempotency-Key (1 to 256 characters) for 24 hours: the same request under it is
answered as before and sent once. So what was never answered may be asked again.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postlease import secret_store
from postlease.config import LARGEST_MAILS
from postlease.errors import UnavailableError
from postlease.model import Accepted, Blocked, Outcome, Rejected, Unknown, Unreachable
from postlease.providers.connections import Connections, NoAnswerError, NotConnectedError
from postlease.providers.resend_answers import classify
from postlease.providers.resend_fields import fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.config import Resend, TimeRules
    from postlease.model import OutgoingMail

LARGEST = LARGEST_MAILS["resend"]
"""More would be refused after the upload."""


def stored_api_key(arn: str) -> Callable[[], str]:
    """A way to the API key in the secret behind arn, whose text is the key and nothing else."""
    return lambda: secret_store.read_text(arn).strip()


class ResendProvider:
    """Sends through one account over kept connections. api_key is asked for at every mail."""

    name = "resend"
    keeps_keys = True

    def __init__(self, account: Resend, times: TimeRules, *, api_key: Callable[[], str]) -> None:
        self._target = f"{urlsplit(account.endpoint).path}/emails"
        self._api_key = api_key
        self.connections = Connections(account.endpoint, times)

    def get_ready(self) -> None:
        """Nothing to do: the connection is made by the first mail of each thread."""

    def sending_rate(self) -> None:
        """Resend tells none: it counts requests, and answers 429 to what is too fast."""

    def send(self, mail: OutgoingMail) -> Outcome:
        """One request, one answer; see `resend_answers` for what the answers mean."""
        if len(mail.content) > LARGEST:
            return Rejected("too_large", is_answer=False)
        began_at = time.monotonic()
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
            answer = self.connections.ask("POST", self._target, headers, body, began_at=began_at)
        except (NotConnectedError, NoAnswerError) as error:
            return error.outcome
        return _outcome(answer.status, answer.content, key=mail.idempotency_key)


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
