"""What Resend's refusals mean: one table, read from the top, the first row that fits decides.

A row asks for the error's name, an HTTP status, a phrase of the text, or several of them. The text
is only looked at: it holds addresses, and none of it is kept.

Rows follow Resend's published list of errors. 5xx answers are unknown unless they say that nothing
was begun: the next call under the same key tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postlease.model import (
    Accepted,
    Blocked,
    Deferred,
    Outcome,
    Rejected,
    Throttled,
    Unknown,
    Unreachable,
)

SAME_KEY_OTHER_BODY = "invalid_idempotent_request"
"""A mail under this key was accepted before. Its id is not told."""


@dataclass(frozen=True, slots=True)
class _Row:
    outcome: Outcome
    names: frozenset[str] | None = None
    statuses: range | None = None
    text: str | None = None

    def fits(self, name: str, status: int, text: str) -> bool:
        return (
            (self.names is None or name in self.names)
            and (self.statuses is None or status in self.statuses)
            and (self.text is None or re.search(self.text, text, re.IGNORECASE) is not None)
        )


def _only(*names: str) -> frozenset[str]:
    return frozenset(names)


def _exactly(status: int) -> range:
    return range(status, status + 1)


_TABLE = (
    # The key: a call under it is still running, or it says something that nobody documents.
    _Row(Deferred("key_in_use"), names=_only("concurrent_idempotent_requests")),
    _Row(Blocked("key_refused"), names=_only("invalid_idempotency_key")),
    _Row(Unknown("conflict"), statuses=_exactly(409)),
    # 429 says "too fast" and "enough for today" by its name.
    _Row(Blocked("daily_quota"), names=_only("daily_quota_exceeded")),
    _Row(Blocked("monthly_quota"), names=_only("monthly_quota_exceeded")),
    _Row(Throttled("rate_exceeded"), names=_only("rate_limit_exceeded")),
    _Row(Throttled("throttled"), statuses=_exactly(429)),
    # The account, our identity and our set-up: true of every message, so no message pays for it.
    _Row(Blocked("credentials_missing"), names=_only("missing_api_key")),
    _Row(Blocked("account_suspended"), names=_only("suspended_api_key")),
    _Row(Blocked("credentials_refused"), names=_only("invalid_api_key", "restricted_api_key")),
    # Newer answers give a bad key the general name, with a status that depends on the endpoint.
    _Row(
        Blocked("credentials_refused"),
        names=_only("validation_error"),
        statuses=range(400, 404),
        text=r"\bAPI key\b",
    ),
    _Row(Blocked("sender_refused"), names=_only("invalid_from_address")),
    _Row(Blocked("testing_only"), statuses=_exactly(403), text=r"\btesting emails\b"),
    _Row(Blocked("sender_unverified"), statuses=_exactly(403), text=r"\bnot verified\b"),
    _Row(Blocked("credentials_refused"), statuses=range(401, 404)),
    _Row(Blocked("not_found"), statuses=_exactly(404)),
    # Refused before any work was begun, in so many words. Only these are certain.
    _Row(
        Unreachable("service_unavailable"),
        names=_only("service_unavailable"),
        statuses=_exactly(503),
    ),
    _Row(Unreachable("request_timeout"), statuses=_exactly(408)),
    # A server that fails, and a bare 5xx of something in between, may have sent it on.
    _Row(Unknown("server_error"), statuses=range(500, 600)),
    # This message alone.
    _Row(Rejected("too_large"), statuses=_exactly(413)),
    _Row(Rejected("security_error"), statuses=_exactly(451)),
    _Row(Rejected("invalid_attachment"), names=_only("invalid_attachment")),
    _Row(Rejected("bad_request"), statuses=_exactly(400)),
    _Row(Rejected("bad_request"), statuses=_exactly(422)),
    # Redirects, 405 and the like come from a wrong endpoint, never from a message.
    _Row(Blocked("unexpected_answer")),
)


def classify(*, name: str, status: int, text: str, key: str) -> Outcome:
    """The outcome that an error answer to a mail under key means."""
    if status == 409 and name == SAME_KEY_OTHER_BODY:
        return Accepted(f"resend-key:{key}", is_earlier=True)
    # Spelt `invalid_api_Key` in places.
    slug = name.lower()
    return next(row.outcome for row in _TABLE if row.fits(slug, status, text))
