"""Accounts: sign up, verify, ask again, look. Each is one transaction, or changes nothing.

    signing_up   a user and the mail that proves the address; the mail again
    verifying    a token redeemed, once
    issuing      the token and the mail, with what they replace
    events       what became of a mail
    ground       what all of them stand on: the transaction, the keys

User, token, idempotency key, cooldown and message commit together. Locks are taken in one order:
idempotency key, rate limit, user, tokens, messages. Answers do not tell whether an address is
known. HTTP is not known here, but for the status that a stored answer is replayed with.
"""

from postlease.accounts.events import Absence, Event, PublicStatus, event_status
from postlease.accounts.signing_up import SignUp, resend_verification, sign_up
from postlease.accounts.verifying import Verified, verify

__all__ = [
    "Absence",
    "Event",
    "PublicStatus",
    "SignUp",
    "Verified",
    "event_status",
    "resend_verification",
    "sign_up",
    "verify",
]
