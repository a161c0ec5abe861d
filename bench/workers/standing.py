"""What stands in where a case leaves a part out: bytes that are given, a silent provider."""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING

from bench.workers.arranging import PEPPER
from postlease import tokens
from postlease.delivery.preparing import PreparedMail
from postlease.model import Accepted, Envelope, OutgoingMail
from postlease.outbox import Addressee, Asked
from postlease.suppression import digest

if TYPE_CHECKING:
    from postlease.config import Settings
    from postlease.model import ClaimedMessage, Outcome
    from postlease.rendering import Templates

CONTENT = (
    b"Subject: given\r\n\r\n" + b"<p>Three kilobytes, as a mail of both parts has.</p>\r\n" * 60
)


class GivenBytes:
    """A preparer whose mails are there already; whom they go to is looked up as ever."""

    def __init__(self, settings: Settings, templates: Templates) -> None:
        del templates
        self._sender = settings.from_address
        self._pepper = tokens.pepper(PEPPER)

    def storage_is_silent(self) -> bool:
        """It asks no storage."""
        return False

    def prepare(self, message: ClaimedMessage, *, until: float = math.inf) -> PreparedMail:
        """The given bytes, addressed as message is."""
        del until
        envelope = Envelope(
            self._sender, message.to_addresses, message.cc_addresses, message.bcc_addresses
        )
        digests = {one: digest(self._pepper, one) for one in envelope.recipients}
        claim = message.claim
        return PreparedMail(
            mail=OutgoingMail(
                message_id=claim.message_id,
                attempt=claim.attempt,
                idempotency_key=str(claim.message_id),
                envelope=envelope,
                content=CONTENT,
                tags=message.tags,
            ),
            asked=Asked(
                claim,
                tuple(Addressee(digests[one], is_to=one in envelope.to) for one in digests),
            ),
            template_version="given",
            digests=digests,
        )


class Silent:
    """A provider that accepts everything after so many seconds, in this process."""

    name = "ses"
    keeps_keys = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._numbers = itertools.count()

    def get_ready(self) -> None:
        """It always is."""

    def sending_rate(self) -> float | None:
        """It tells none."""
        return None

    def send(self, mail: OutgoingMail) -> Outcome:
        """An id as long as one of SES's."""
        del mail
        if self._seconds:
            time.sleep(self._seconds)
        return Accepted(f"0100018f-{next(self._numbers):048d}-000000")
