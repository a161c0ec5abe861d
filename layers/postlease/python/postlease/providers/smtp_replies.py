"""What a relay's replies mean, step by step (RFC 5321, section 4.2; RFC 4954, section 6).

4xx is "not now" and 5xx is "never", but of what? A reply to the recipients or the text judges the
message; one to the greeting, the login or our own sender judges us, and no message pays for it.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from postlease.model import (
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Throttled,
    Unknown,
    Unreachable,
)
from postlease.providers.wording import (
    DAILY_QUOTA,
    PAUSED,
    SENDING_RATE,
    SUSPENDED,
    unverified,
    without_addresses,
)

if TYPE_CHECKING:
    from collections.abc import Collection


class Step(enum.Enum):
    """A step of the conversation."""

    GREETING = enum.auto()
    LOGIN = enum.auto()
    SENDER = enum.auto()
    RECIPIENT = enum.auto()
    DATA = enum.auto()
    TEXT = enum.auto()


_DONE: dict[Step, Collection[int]] = {
    Step.GREETING: range(200, 300),
    Step.LOGIN: (235, 503),
    Step.SENDER: range(200, 300),
    Step.RECIPIENT: range(200, 300),
    Step.DATA: (354,),
    Step.TEXT: range(200, 300),
}
_NOT_NOW: dict[Step, Outcome] = {
    Step.GREETING: Unreachable("service_unavailable"),
    Step.LOGIN: Unreachable("login_unavailable"),
    Step.SENDER: Deferred("sender_deferred"),
    Step.RECIPIENT: Deferred("recipient_deferred"),
    Step.DATA: Deferred("message_deferred"),
    Step.TEXT: Deferred("message_deferred"),
}
_NEVER: dict[Step, Outcome] = {
    Step.GREETING: Blocked("service_refused"),
    Step.LOGIN: Blocked("credentials_refused"),
    Step.SENDER: Blocked("sender_refused"),
    Step.RECIPIENT: Rejected("recipient_refused"),
    Step.DATA: Rejected("message_refused"),
    Step.TEXT: Rejected("message_refused"),
}
_BY_CODE: dict[int, Outcome] = {
    421: Unreachable("service_closing"),
    530: Blocked("login_required"),
    534: Blocked("login_required"),
    535: Blocked("credentials_refused"),
    538: Blocked("login_required"),
    552: Rejected("too_large"),
}
_BY_TEXT: dict[str, Outcome] = {
    DAILY_QUOTA: Blocked("daily_quota"),
    SENDING_RATE + r"|throttl|too many (messages|e?mails|connections)": Throttled("rate_exceeded"),
    SUSPENDED: Blocked("account_suspended"),
    PAUSED: Blocked("sending_paused"),
}


def classify(step: Step, code: int, text: bytes, *, sender: str) -> Outcome | None:
    """The outcome that a reply ends the conversation with, or None if the step is done.

    A reply out of turn says nothing of the mail: after the text that is unknown, before it
    nothing can have been accepted.
    """
    if code in _DONE[step]:
        return None
    if code not in range(400, 600):
        return (Unknown if step is Step.TEXT else Unreachable)("unreadable_answer")
    words = text.decode("ascii", "replace")
    # At a recipient every phrase is about a mailbox, whose owner's troubles are not our account's.
    by_text = None if step is Step.RECIPIENT else _by_text(without_addresses(words))
    general = by_text or unverified(words, sender) or _BY_CODE.get(code)
    return general or (_NOT_NOW if code < 500 else _NEVER)[step]


def _by_text(words: str) -> Outcome | None:
    return next(
        (
            outcome
            for phrase, outcome in _BY_TEXT.items()
            if re.search(phrase, words, re.IGNORECASE)
        ),
        None,
    )
