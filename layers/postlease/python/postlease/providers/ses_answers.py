"""What SES's refusals mean: one table, read from the top, the first row that fits decides.

A row asks for an error code, an HTTP status, a phrase of the text, or several of them. Codes are
compared without their namespace, their case and a trailing `Exception`, because they have been
spelt in several ways. The text is only looked at: it holds addresses, and none of it is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postlease.model import Blocked, Outcome, Rejected, Throttled, Unknown, Unreachable
from postlease.providers.wording import (
    DAILY_QUOTA,
    PAUSED,
    SENDING_RATE,
    SUSPENDED,
    unverified,
    without_addresses,
)

_THROTTLES = frozenset(
    {
        "throttling",
        "throttled",
        "throttlingerror",
        "toomanyrequests",
        "requestthrottled",
        "requestlimitexceeded",
        "bandwidthlimitexceeded",
        "slowdown",
        "priorrequestnotcomplete",
    }
)
_ABOUT_A_MESSAGE = frozenset({"messagerejected", "badrequest"})
_LIMITS = _THROTTLES | _ABOUT_A_MESSAGE | {"limitexceeded", "429"}
_CREDENTIALS_EXPIRED = frozenset({"expiredtoken", "tokenrefreshrequired", "requestexpired"})
_CREDENTIALS_REFUSED = frozenset(
    {
        "accessdenied",
        "authfailure",
        "incompletesignature",
        "invalidaccesskeyid",
        "invalidclienttokenid",
        "missingauthenticationtoken",
        "notauthorized",
        "optinrequired",
        "requesttimetooskewed",
        "signaturedoesnotmatch",
        "unauthorizedoperation",
        "unrecognizedclient",
    }
)


@dataclass(frozen=True, slots=True)
class _Row:
    outcome: Outcome
    codes: frozenset[str] | None = None
    statuses: range | None = None
    text: str | None = None

    def fits(self, code: str, status: int, text: str) -> bool:
        return (
            (self.codes is None or code in self.codes)
            and (self.statuses is None or status in self.statuses)
            and (self.text is None or re.search(self.text, text, re.IGNORECASE) is not None)
        )


def _only(*codes: str) -> frozenset[str]:
    return frozenset(codes)


def _exactly(status: int) -> range:
    return range(status, status + 1)


_TABLE = (
    # 429 and LimitExceeded say both "too fast" and "enough for today": the text decides.
    _Row(Blocked("daily_quota"), codes=_LIMITS, text=DAILY_QUOTA),
    _Row(Throttled("rate_exceeded"), codes=_LIMITS, text=SENDING_RATE),
    _Row(Throttled("throttled"), codes=_THROTTLES),
    _Row(Throttled("throttled"), statuses=_exactly(429)),
    _Row(Blocked("limit_exceeded"), codes=_only("limitexceeded")),
    # The account, our identity and our set-up: true of every message, so no message pays for it.
    _Row(Blocked("account_suspended"), codes=_only("accountsuspended")),
    _Row(
        Blocked("sending_paused"),
        codes=_only("sendingpaused", "accountsendingpaused", "configurationsetsendingpaused"),
    ),
    _Row(Blocked("mail_from_unverified"), codes=_only("mailfromdomainnotverified")),
    _Row(Blocked("credentials_expired"), codes=_CREDENTIALS_EXPIRED),
    _Row(Blocked("credentials_refused"), codes=_CREDENTIALS_REFUSED),
    _Row(Blocked("credentials_refused"), statuses=range(401, 404)),
    _Row(Blocked("account_suspended"), text=SUSPENDED),
    _Row(
        Blocked("sending_paused"),
        text=PAUSED,
    ),
    _Row(Blocked("configuration_set_missing"), codes=_only("configurationsetdoesnotexist")),
    _Row(
        Blocked("configuration_set_missing"),
        statuses=range(400, 405),
        text=r"configuration ?set\b.{0,300}\b(not exist|not found)",
    ),
    _Row(Blocked("not_found"), statuses=_exactly(404)),
    # Refused before any work was begun, in so many words. Only these 5xx are certain.
    _Row(
        Unreachable("service_unavailable"),
        codes=_only("serviceunavailable"),
        statuses=_exactly(503),
    ),
    _Row(Unreachable("not_accepted"), statuses=range(500, 600), text=r"\bnot (been )?accepted\b"),
    # A front end that never got our whole request.
    _Row(Unreachable("request_timeout"), codes=_only("requesttimeout"), statuses=range(400, 500)),
    _Row(Unreachable("request_timeout"), statuses=_exactly(408)),
    # A server that fails, and a bare 503 of something in between, may have sent it on.
    _Row(Unknown("server_error"), statuses=range(500, 600)),
    # This message alone.
    _Row(Rejected("too_large"), statuses=_exactly(413)),
    _Row(Rejected("message_rejected"), codes=_only("messagerejected")),
    _Row(Rejected("bad_request"), statuses=_exactly(400)),
    _Row(Rejected("bad_request"), statuses=_exactly(422)),
    # Redirects, 405 and the like come from a wrong endpoint, never from a message.
    _Row(Blocked("unexpected_answer")),
)


def classify(*, code: str, status: int, text: str, sender: str) -> Outcome:
    """The outcome that an error answer to a mail from sender means."""
    slug = re.sub(r"(exception)?$", "", code.rpartition("#")[2].partition(":")[0].lower(), count=1)
    if slug in _ABOUT_A_MESSAGE and (outcome := unverified(text, sender)) is not None:
        return outcome
    words = without_addresses(text)
    return next(row.outcome for row in _TABLE if row.fits(slug, status, words))
