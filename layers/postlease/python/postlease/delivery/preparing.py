"""A claimed message to bytes: load, derive the link, render, compose. No transaction is open."""

from __future__ import annotations

import functools
import json
import math
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from postlease import addresses, attachments, mime, secret_store, suppression, tokens
from postlease.delivery.crew import elsewhere
from postlease.errors import FilenameForbiddenError, SenderNotAllowedError, TemplateError
from postlease.model import Addressing, Envelope, Mailbox, OutgoingMail
from postlease.model.values import value
from postlease.outbox import Addressee, Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from postlease.config import Settings
    from postlease.model import Attachment, ClaimedMessage
    from postlease.rendering import Templates
    from postlease.rendering.declared import Declaration

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)

_SILENCE_SECONDS = 10.0
"""How long after the storage kept a message waiting it is not asked again: mail that needs nothing
of it must not find every slot taken by mail that waits for it."""


@value
class PreparedMail:
    """A mail ready to leave, and what the dispatch check asks of it."""

    mail: OutgoingMail
    asked: Asked
    template_version: str
    digests: Mapping[str, bytes]

    def without(self, struck: AbstractSet[bytes]) -> OutgoingMail:
        """The mail with the suppressed addresses left out of its envelope."""
        if not struck:
            return self.mail
        envelope = self.mail.envelope
        return replace(
            self.mail,
            envelope=Envelope(
                envelope.sender,
                *(
                    tuple(address for address in group if self.digests[address] not in struck)
                    for group in (envelope.to, envelope.cc, envelope.bcc)
                ),
            ),
        )


class Preparer:
    """Turns claimed messages into mails with one deployment's settings and templates.

    A run has one: it reads each secret once, and the key ring again for a key that is not in it.
    """

    def __init__(self, settings: Settings, templates: Templates) -> None:
        self._settings = settings
        self._templates = templates
        self._asks_again_at = -math.inf
        self._ring: tokens.KeyRing | None = None
        self._pepper: bytes | None = None

    # Found once: a room that loads with its first use looks its names up each time.

    @functools.cached_property
    def _compose(self) -> Callable[..., bytes]:
        return mime.compose

    @functools.cached_property
    def _digest(self) -> Callable[[bytes, str], bytes]:
        return suppression.digest

    def storage_is_silent(self) -> bool:
        """Whether the storage kept a message waiting a moment ago."""
        return time.monotonic() < self._asks_again_at

    def prepare(self, message: ClaimedMessage, *, until: float = math.inf) -> PreparedMail:
        """Everything that can fail before the dispatch mark happens here, until a monotonic second.

        Raises TemplateError and AttachmentError (permanent), UnavailableError (storage or secrets
        do not answer in time), TokenKeyUnknownError and TokenMismatchError (a link cannot be made),
        InvalidInputError and SenderNotAllowedError (the sender, or whom to reply to, of the message
        or its template cannot be used), FilenameForbiddenError (no provider carries such a file).
        """
        if any(mime.is_forbidden_filename(one.filename) for one in message.attachments):
            raise FilenameForbiddenError
        parameters = _parameters(message)
        if message.token is not None:
            lifetime = self._settings.token_lifetime(message.token.purpose)
            ring = self._ring_with(message.token.key_id)
            token = tokens.derive_again(ring, message.token)
            parameters["link"] = tokens.link(
                self._settings.public_url, message.token.purpose, token
            )
            if message.token.purpose == "verify_email" and self._settings.verify_codes:
                parameters["code"] = tokens.code_again(ring, message.token)
                parameters["code_minutes"] = tokens.CODE_LIFETIME // _MINUTE
            parameters["valid_hours"] = lifetime // _HOUR
            parameters["valid_minutes"] = lifetime // _MINUTE
        rendered = self._templates.render(message.template, message.locale, parameters)
        declared = self._templates.declaration(message.template)
        sender = self._sender(message, declared)
        envelope = Envelope(
            sender.address, message.to_addresses, message.cc_addresses, message.bcc_addresses
        )
        claim = message.claim
        content = self._compose(
            envelope=envelope,
            rendered=rendered,
            attachments=self._loaded(message, until),
            message_id=claim.message_id,
            attempt=claim.attempt,
            # The moment of the claim on the database's clock.
            sent_at=message.lease_expires_at - self._settings.times.lease,
            shown=Addressing(sender.name, message.recipient_names, _reply_to(message, declared)),
        )
        digests = self._digests(envelope)
        return PreparedMail(
            mail=OutgoingMail(
                message_id=claim.message_id,
                attempt=claim.attempt,
                idempotency_key=_provider_key(message),
                envelope=envelope,
                content=content,
                tags=message.tags,
            ),
            asked=Asked(
                claim,
                tuple(
                    Addressee(digests[address], is_to=address in envelope.to)
                    for address in envelope.recipients
                ),
            ),
            template_version=rendered.version,
            digests=digests,
        )

    def _loaded(self, message: ClaimedMessage, until: float) -> tuple[Attachment, ...]:
        if not message.attachments:
            return ()
        try:
            with elsewhere():
                return attachments.load(message.attachments, until=until)
        except attachments.SilentError:
            self._asks_again_at = time.monotonic() + _SILENCE_SECONDS
            raise

    def _sender(self, message: ClaimedMessage, declared: Declaration) -> addresses.Sender:
        """The message's own, or else its template's, or else the deployment's."""
        sender = declared.sender
        if message.from_address is not None:
            sender = addresses.parse_sender(message.from_address, pointer="/from_address")
        if sender is None:
            return addresses.Sender(self._settings.from_name, self._settings.from_address)
        # As it is configured: permissions and identities at the provider are for that spelling.
        configured = self._settings.allowed_senders.get(sender.address.lower())
        if configured is None:
            raise SenderNotAllowedError
        return addresses.Sender(sender.name, configured)

    def _ring_with(self, key_id: str) -> tokens.KeyRing:
        ring = self._ring or self._key_ring(refresh=False)
        # A rotation may be younger than our copy of the secret: look once more.
        if key_id not in ring.keys:
            ring = self._key_ring(refresh=True)
        self._ring = ring
        return ring

    def _key_ring(self, *, refresh: bool) -> tokens.KeyRing:
        arn = self._settings.token_keys_secret_arn
        with elsewhere():
            return tokens.KeyRing.from_secret(secret_store.read_json(arn, refresh=refresh))

    def _digests(self, envelope: Envelope) -> dict[str, bytes]:
        pepper = self._pepper
        if pepper is None:
            with elsewhere():
                text = secret_store.read_text(self._settings.pepper_secret_arn)
            pepper = self._pepper = tokens.pepper(text)
        return {address: self._digest(pepper, address) for address in envelope.recipients}


def _reply_to(message: ClaimedMessage, declared: Declaration) -> Mailbox | None:
    box = declared.reply_to
    if message.reply_to is not None:
        box = addresses.parse_sender(message.reply_to, pointer="/reply_to")
    return Mailbox(box.name, box.address) if box else None


def _parameters(message: ClaimedMessage) -> dict[str, Any]:
    """The parameters of message. PostgreSQL keeps numbers and depths that Python does not read."""
    try:
        parameters: dict[str, Any] = json.loads(message.parameters_json)
    except (ValueError, RecursionError):
        raise TemplateError("parameters_unreadable") from None
    return parameters


def _provider_key(message: ClaimedMessage) -> str:
    """The same in every attempt; another only after an operator asked for one more mail."""
    key = str(message.claim.message_id)
    return f"{key}-r{message.retry_count}" if message.retry_count else key
