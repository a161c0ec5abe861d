"""The port to whoever carries the mail out: one call in, one honest outcome back.

An adapter classifies what its provider answered; what an outcome means for the message is
decided in `delivery`. Each adapter is a module of its own and is imported only when chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from postlease.config import Settings
    from postlease.model import Outcome, OutgoingMail


class Provider(Protocol):
    """Something that can carry a mail out. One per process; send may be called by many threads."""

    @property
    def name(self) -> str:
        """What stands in `email_messages.provider` and in the logs."""
        ...

    @property
    def keeps_keys(self) -> bool:
        """Whether one idempotency key is never sent twice: then an unknown may be asked again."""
        ...

    def get_ready(self) -> None:
        """Do what can be done before the first mail, so that a call leaves when it is its turn.

        Raises nothing: what went wrong is met again by `send`.
        """
        ...

    def sending_rate(self) -> float | None:
        """How many recipients a second it takes from us, asked anew; None if it tells no rate.

        UnavailableError if it does not answer: it may tell one later.
        """
        ...

    def send(self, mail: OutgoingMail) -> Outcome:
        """Hand mail over, once, without a retry, within connect and read timeout together.

        Never raises for what the provider or the network does. Codes are slugs; the provider's
        own text holds addresses and is dropped.
        """
        ...


def choose(settings: Settings) -> Provider:
    """The provider that the settings name. It connects at the first mail, not here."""
    if settings.smtp is not None:
        from postlease.providers.smtp import SmtpProvider, stored_credentials  # noqa: PLC0415

        arn = settings.smtp.credentials_secret_arn
        return SmtpProvider(
            settings.smtp,
            settings.times,
            credentials=stored_credentials(arn) if arn else None,
        )
    if settings.resend is not None:
        from postlease.providers.resend import ResendProvider, stored_api_key  # noqa: PLC0415

        return ResendProvider(
            settings.resend,
            settings.times,
            api_key=stored_api_key(settings.resend.api_key_secret_arn),
        )
    from postlease.providers.ses import SesProvider  # noqa: PLC0415

    return SesProvider(
        settings.times,
        configuration_set=settings.ses_configuration_set,
        connections=settings.send_slots,
        signs=settings.ses_client == "signed",
    )
