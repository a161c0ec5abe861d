"""Amazon SES, API v2: one SendEmail with the whole MIME, and no retry by the SDK.

SES keeps no idempotency key and replaces the Message-ID. What a mail is known by in its events
are two tags: `postlease-id` and `postlease-attempt`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Protocol

from postlease.config import LARGEST_MAILS
from postlease.errors import UnavailableError
from postlease.model import Outcome, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.config import TimeRules
    from postlease.model import OutgoingMail

LARGEST = LARGEST_MAILS["ses"]
"""More would be refused after the upload."""


class Client(Protocol):
    """A way to call SES: `ses_signed` or `ses_sdk`. Both mean the same by the same."""

    def send(self, fields: Mapping[str, Any], content: bytes) -> Outcome:
        """One SendEmail of content, with the request's other fields."""
        ...

    def sending_rate(self) -> float:
        """The account's MaxSendRate, 0 or less where it has none; UnavailableError."""
        ...


class SesProvider:
    """Sends through SES with one client, made at the first mail and shared by all threads.

    signs: requests are made and signed here where the environment is plain (see `ses_account`), and
    by the SDK elsewhere; else always by the SDK.
    """

    name = "ses"
    keeps_keys = False

    def __init__(
        self,
        times: TimeRules,
        *,
        configuration_set: str | None,
        connections: int,
        signs: bool = True,
    ) -> None:
        self._times = times
        self._configuration_set = configuration_set
        self._connections = connections
        self._signs = signs
        self._lock = threading.Lock()
        self._client: Client | None = None

    def send(self, mail: OutgoingMail) -> Outcome:
        """One request, one answer; see `ses_answers` for what the answers mean."""
        if len(mail.content) > LARGEST:
            return Rejected("too_large", is_answer=False)
        try:
            client = self._connected()
        except Exception as error:  # noqa: BLE001 - the SDK's own, and whatever it comes by
            from postlease.providers.ses_sdk import before_a_call  # noqa: PLC0415

            return before_a_call(error)
        return client.send(self._fields(mail), mail.content)

    def get_ready(self) -> None:
        """Make the client: it takes long enough for calls to pile up behind it."""
        # Whatever is wrong, each mail's own call meets it again and answers with it.
        with contextlib.suppress(Exception):
            self._connected()

    def sending_rate(self) -> float | None:
        """The account's MaxSendRate (GetAccount), which counts recipients."""
        try:
            client = self._connected()
        except Exception as error:  # noqa: BLE001 - as in `send`
            raise UnavailableError(f"SES tells no rate: {type(error).__name__}") from None
        rate = client.sending_rate()
        return rate if rate > 0 else None

    def _fields(self, mail: OutgoingMail) -> dict[str, Any]:
        tags = {
            **mail.tags,
            "postlease-id": str(mail.message_id),
            "postlease-attempt": str(mail.attempt),
        }
        fields: dict[str, Any] = {
            "FromEmailAddress": mail.envelope.sender,
            "Destination": {
                "ToAddresses": mail.envelope.to,
                "CcAddresses": mail.envelope.cc,
                "BccAddresses": mail.envelope.bcc,
            },
            "EmailTags": [{"Name": name, "Value": value} for name, value in tags.items()],
        }
        if self._configuration_set:
            fields["ConfigurationSetName"] = self._configuration_set
        return fields

    def _connected(self) -> Client:
        # Clients may be shared by threads, but not made by several at once.
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _make_client(self) -> Client:
        if self._signs:
            from postlease.providers import ses_account, ses_signed  # noqa: PLC0415

            if (account := ses_account.find()) is not None:
                return ses_signed.SignedClient(account, self._times)
        from postlease.providers.ses_sdk import SdkClient  # noqa: PLC0415

        return SdkClient(self._times, connections=self._connections)
