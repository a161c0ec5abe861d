"""A mail on its way to a provider: what it says, whom it is for, what it carries."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from postlease.model.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


@value
class Attachment:
    """A loaded attachment. content_id is what the HTML calls an inline image by: `cid:` and it."""

    filename: str
    content_type: str
    content: bytes = field(repr=False)
    content_id: str | None = None


@value
class RenderedMail:
    """A template filled in. version is the digest of the template's files."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)
    version: str


@value
class Mailbox:
    """What stands in an address header: a display name (empty for none) and a plain address."""

    name: str = field(repr=False)
    address: str = field(repr=False)


@value
class Addressing:
    """What a mail shows beside the envelope's plain addresses.

    sender is the name in `From`; recipients are the names in `To` and `Cc` by lower-cased address.
    """

    sender: str = field(default="", repr=False)
    recipients: Mapping[str, str] = field(default_factory=dict, repr=False)
    reply_to: Mailbox | None = None


@value
class Envelope:
    """Whom the provider is to serve. Never parsed out of a header."""

    sender: str = field(repr=False)
    to: tuple[str, ...] = field(repr=False)
    cc: tuple[str, ...] = field(repr=False)
    bcc: tuple[str, ...] = field(repr=False)

    @property
    def recipients(self) -> tuple[str, ...]:
        """Every address that gets a copy."""
        return (*self.to, *self.cc, *self.bcc)


@value
class OutgoingMail:
    """One call to a provider.

    content is a whole RFC 5322 message; idempotency_key is the message's id (or `id-rN` after the
    N-th operator retry) for providers that keep one.
    """

    message_id: UUID
    attempt: int
    idempotency_key: str
    envelope: Envelope
    content: bytes = field(repr=False)
    tags: dict[str, str]
