"""Accounts: sign up, verify, ask again, reset, change, look. Each is one transaction, or nothing.

    signing_up   a user and the mail that proves the address; the mail again
    verifying    a verification token redeemed, once
    codes        the same by six digits and an address, with few tries
    resetting    a mail with the right to set a new password; that right redeemed, once
    changing     another address; an account closed; links ended, since the password was changed
    admitting    how many requests one client may make
    asking       known or not, the same work for whoever asks for a mail
    issuing      the token and the mail, with what they replace
    redeeming    how a token is found and its user locked
    mailboxes    how often one mailbox is written to
    events       what became of a mail
    ground       what all of them stand on: the transaction, the keys

User, token, idempotency key, cooldown and message commit together. Locks are taken in one order:
idempotency key, rate limit, user, tokens, messages. Answers do not tell whether an address is
known. HTTP is not known here, but for the status that a stored answer is replayed with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.accounts.admitting import admit
    from postlease.accounts.changing import Changed, change_address, close, revoke_resets
    from postlease.accounts.codes import try_code
    from postlease.accounts.events import Absence, Event, PublicStatus, event_status
    from postlease.accounts.resetting import Redeemed, redeem_reset, request_reset
    from postlease.accounts.signing_up import SignUp, resend_verification, sign_up
    from postlease.accounts.verifying import Verified, verify
else:
    __getattr__ = on_first_use(
        __name__,
        admitting="admit",
        changing="Changed change_address close revoke_resets",
        codes="try_code",
        events="Absence Event PublicStatus event_status",
        resetting="Redeemed redeem_reset request_reset",
        signing_up="SignUp resend_verification sign_up",
        verifying="Verified verify",
    )
