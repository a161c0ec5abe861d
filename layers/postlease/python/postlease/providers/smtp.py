"""Any SMTP relay: one conversation per mail.

SMTP knows no idempotency key and no events, and names a mail by nothing but the Message-ID that we
gave it.
"""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

from postlease import secret_store
from postlease.errors import UnavailableError
from postlease.model import Outcome, Unreachable
from postlease.providers.smtp_conversation import Conversation, EndedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from postlease.config import Smtp, TimeRules
    from postlease.model import OutgoingMail

    Credentials = Callable[[], tuple[str, str]]


def stored_credentials(arn: str) -> Credentials:
    """A way to user name and password in the secret behind arn: JSON `username`, `password`."""

    def read() -> tuple[str, str]:
        secret = secret_store.read_json(arn)
        return str(secret.get("username", "")), str(secret.get("password", ""))

    return read


class SmtpProvider:
    """Sends through one relay. credentials are asked for at every mail; caching is theirs."""

    name = "smtp"
    keeps_keys = False

    def __init__(
        self, relay: Smtp, times: TimeRules, *, credentials: Credentials | None = None
    ) -> None:
        self._relay = relay
        self._times = times
        self._credentials = credentials

    @functools.cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def get_ready(self) -> None:
        """Nothing to do: a mail has a connection of its own."""

    def sending_rate(self) -> None:
        """A relay tells no rate."""

    def send(self, mail: OutgoingMail) -> Outcome:
        """One conversation, at most connect and read timeout together long."""
        talk = Conversation(self._relay, self._times, mail, tls=lambda: self._tls)
        try:
            talk.open(self._credentials() if self._credentials else None)
            return talk.transfer()
        except UnavailableError:
            return Unreachable("credentials_unavailable")
        except EndedError as ended:
            return ended.outcome
        finally:
            talk.close()
