"""Whoever owns an address chose its words, and a mailbox that is disabled is its owner's."""

from __future__ import annotations

import pytest

from postlease.model import Blocked, Deferred, Outcome, Rejected, Throttled
from postlease.providers import ses_answers, smtp_replies
from postlease.providers.smtp_replies import Step

SENDER = "no-reply@example.com"


@pytest.mark.parametrize(
    ("step", "code", "text", "expected"),
    [
        (
            Step.RECIPIENT,
            550,
            b"5.2.1 The email account that you tried to reach is disabled",
            Rejected("recipient_refused"),
        ),
        (Step.RECIPIENT, 550, b"<daily.limit@example.net>: unknown", Rejected("recipient_refused")),
        (Step.RECIPIENT, 450, b"<throttle@example.net>: busy", Deferred("recipient_deferred")),
        (Step.RECIPIENT, 450, b"4.2.1 account disabled", Deferred("recipient_deferred")),
        (Step.RECIPIENT, 452, b"4.2.2 daily quota reached", Deferred("recipient_deferred")),
        (Step.RECIPIENT, 451, b"4.7.1 rate limit exceeded", Deferred("recipient_deferred")),
        (Step.SENDER, 451, b"daily quota reached", Blocked("daily_quota")),
        (Step.TEXT, 550, b"account suspended", Blocked("account_suspended")),
        (
            Step.TEXT,
            550,
            b"refused for <account.disabled@example.net>",
            Rejected("message_refused"),
        ),
        (Step.TEXT, 451, b"sending rate exceeded", Throttled("rate_exceeded")),
    ],
)
def test_a_relay_speaks_of_our_account_or_of_a_mailbox(
    step: Step, code: int, text: bytes, expected: Outcome
) -> None:
    assert smtp_replies.classify(step, code, text, sender=SENDER) == expected


@pytest.mark.parametrize("address", ["daily.quota", "sending-paused", "account.suspended"])
@pytest.mark.parametrize("code", ["MessageRejected", "BadRequestException"])
def test_an_address_in_a_text_of_ses_blocks_nobody(address: str, code: str) -> None:
    outcome = ses_answers.classify(
        code=code,
        status=400,
        text=f"Address {address}@example.net is not accepted: limit",
        sender=SENDER,
    )
    assert isinstance(outcome, Rejected)
