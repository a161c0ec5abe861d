"""What travels between the rooms. Values only: no network, no clock.

    values     how the others are made
    words      a message's states and purposes, and its public id
    claims     a claimed message
    mails      what a provider gets
    outcomes   what came of it

Durations are `timedelta`, moments are aware `datetime`s read from the database, identifiers `UUID`.
Types that hold an address, a parameter or a body do not print it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.model.claims import AttachmentReference, Claim, ClaimedMessage, TokenFacts
    from postlease.model.mails import (
        Addressing,
        Attachment,
        Envelope,
        Mailbox,
        OutgoingMail,
        RenderedMail,
    )
    from postlease.model.outcomes import (
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
    from postlease.model.words import (
        DeliveryPolicy,
        FailureReason,
        GateWord,
        Purpose,
        Status,
        event_id,
        parse_event_id,
    )
else:
    __getattr__ = on_first_use(
        __name__,
        claims="AttachmentReference Claim ClaimedMessage TokenFacts",
        mails="Addressing Attachment Envelope Mailbox OutgoingMail RenderedMail",
        outcomes=(
            "Accepted Blocked Deferred Outcome Rejected Settlement Throttled Unknown Unreachable"
        ),
        words="DeliveryPolicy FailureReason GateWord Purpose Status event_id parse_event_id",
    )
