"""What an attempt's result means for its message: the one place that decides."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from postlease import backoff
from postlease.errors import (
    AttachmentError,
    ConfigurationError,
    DatabaseError,
    FilenameForbiddenError,
    InvalidInputError,
    PostleaseError,
    SenderNotAllowedError,
    TemplateError,
    TokenKeyUnknownError,
    TokenMismatchError,
    UnavailableError,
)
from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Settlement,
    Throttled,
    Unknown,
    Unreachable,
)

if TYPE_CHECKING:
    from postlease.gate import Closing
    from postlease.model import Claim, ClaimedMessage, FailureReason

THROTTLE_DELAY = timedelta(seconds=2)

_COUNTS_RECIPIENTS = frozenset({"daily_quota", "monthly_quota"})
"""Blocked for what is left of a number: a message with fewer recipients may still pass."""

QUOTA_DELAY = timedelta(minutes=30)
"""How long a message waits that is too large for what is left while others pass."""

_THROTTLED_OFTEN = 4

_UNSTORED = re.compile("[\x00\ud800-\udfff]")
"""What PostgreSQL keeps in no text. A mail whose name could not be recorded would leave twice."""

_TELLABLE = frozenset({"parameter_missing", "render_error"})
"""Their details name files, lines and variables of the template; others name members of a value."""


def judge(outcome: Outcome, closing: Closing | None) -> Outcome:
    """What outcome says of its message, knowing how it closed the provider's gate, if it did.

    The gate was closed by this message before, another's call was accepted since, and it is closed
    by this one again: then it is this message's own trouble, and not the account's. Of a quota it
    may be too much today and not tomorrow.
    """
    match outcome:
        case Blocked(code) if closing and closing.others_pass and code not in _COUNTS_RECIPIENTS:
            return Rejected(code)
        case _:
            return outcome


def settle(
    message: ClaimedMessage,
    outcome: Outcome,
    *,
    template_version: str | None,
    chance: float,
    closing: Closing | None = None,
) -> Settlement | None:
    """The settlement of message after outcome; None leaves an unknown one as it is.

    An unknown message stays `sending`: the provider's event, the next claim under the same key or
    the reaper settles it, and never a guess. chance in [0, 1) spreads the waits.
    """
    match outcome:
        case Accepted(provider_message_id, is_earlier):
            return Settlement(
                message.claim,
                "sent",
                "accepted",
                provider_message_id=_UNSTORED.sub("\ufffd", provider_message_id),
                # What an earlier attempt's mail was rendered from is not known: no version is told.
                template_version=None if is_earlier else template_version,
            )
        case Rejected(code):
            return failed(message.claim, "rejected", outcome="rejected", code=code)
        case Deferred(code):
            return deferred(message, code, chance=chance)
        case Unreachable(code):
            return _refunded(message, "unreachable", code, _short(chance))
        case Blocked(code):
            own_trouble = closing is not None and closing.others_pass
            delay = QUOTA_DELAY * (0.5 + chance) if own_trouble else _short(chance)
            settlement = _refunded(message, "blocked", code, delay)
            return replace(settlement, closed_gate=closing is not None)
        case Throttled(code):
            # Short at first: what is refused for speed whenever it comes must not always come.
            doubled = min(message.claim.attempt - message.counted_attempts, _THROTTLED_OFTEN)
            delay = THROTTLE_DELAY * 2**doubled * (0.5 + chance)
            return _refunded(message, "throttled", code, delay)
        case Unknown():
            return None
        case _:
            assert_never(outcome)


def deferred(message: ClaimedMessage, code: str, *, chance: float) -> Settlement:
    """Try again later, at the cost of this attempt; the last one ends the message."""
    if message.attempts_left <= 0:
        return failed(message.claim, "attempts_exhausted", outcome="deferred", code=code)
    return Settlement(
        message.claim, "pending", "deferred", code=code, delay=_backoff(message, chance)
    )


def unprepared(message: ClaimedMessage, error: Exception, *, chance: float) -> Settlement:
    """What becomes of message when preparing it raised error: nothing has left yet.

    What is the message's own fault ends it; what is true of every message costs it nothing; what
    nobody foresaw is tried again and counts. Of that, only the type is kept: its text may hold
    parameters.
    """
    match error:
        case TemplateError():
            ended = failed(message.claim, "render_error", outcome="render_error", code=error.code)
            return replace(ended, detail=error.detail) if error.code in _TELLABLE else ended
        case AttachmentError():
            return failed(message.claim, error.code, outcome=error.code)
        case InvalidInputError() | SenderNotAllowedError() | FilenameForbiddenError():
            return failed(message.claim, "rejected", outcome="rejected", code=_fault(error))
        case TokenKeyUnknownError() | TokenMismatchError():
            return _refunded(message, "blocked", "token_key", _short(chance))
        case ConfigurationError():
            return _refunded(message, "blocked", "configuration", _short(chance))
        case UnavailableError():
            return _refunded(message, "unreachable", "dependency", _short(chance))
        case _:
            return deferred(message, f"unexpected_{type(error).__name__}", chance=chance)


def _fault(error: InvalidInputError | SenderNotAllowedError | FilenameForbiddenError) -> str:
    match error:
        case SenderNotAllowedError():
            return "sender_not_allowed"
        case FilenameForbiddenError():
            return "forbidden_filename"
        case _:
            return "invalid_reply_to" if error.pointer == "/reply_to" else "invalid_sender"


def unauthorized(message: ClaimedMessage, error: PostleaseError, *, chance: float) -> Settlement:
    """What becomes of message when the dispatch check could not be made: nothing has left.

    What is wrong with the database is not the message's fault; what is wrong with its row is.
    """
    match error:
        case UnavailableError():
            return handed_back(message.claim)
        case DatabaseError(concerns_row=False):
            return _refunded(message, "handed_back", "database_refused", _short(chance))
        case _:
            return deferred(message, f"unexpected_{type(error).__name__}", chance=chance)


def failed(
    claim: Claim, reason: FailureReason, *, outcome: str, code: str | None = None
) -> Settlement:
    """End the message now."""
    return Settlement(claim, "failed", outcome, code=code, failure_reason=reason)


def handed_back(claim: Claim) -> Settlement:
    """Give an unsent message back at once, at no cost; clears the dispatch mark."""
    return Settlement(claim, "pending", "handed_back", refunded=True)


def _refunded(message: ClaimedMessage, word: str, code: str, delay: timedelta) -> Settlement:
    return Settlement(message.claim, "pending", word, code=code, delay=delay, refunded=True)


def _short(chance: float) -> timedelta:
    """The first step, however often it was tried: the message has done nothing wrong."""
    return backoff.delay_after(1, chance=chance)


def _backoff(message: ClaimedMessage, chance: float) -> timedelta:
    return backoff.delay_after(message.counted_attempts, chance=chance)
