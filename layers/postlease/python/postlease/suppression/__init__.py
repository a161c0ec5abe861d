"""The suppression list holds keyed digests, never addresses.

    noting    what the provider's events put on it, and when that ends
    listing   what an operator puts there, finds there and takes off

An address has an entry for each reason, so that a complaint, which auth mail passes, hides no
bounce, which it does not. The dispatch check (`outbox.authorize`) obeys the list; it is compared
there, in the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.suppression.listing import Entry, Reason, delete, find, page, put
    from postlease.suppression.noting import (
        HARD_LIFETIME,
        SOFT_LIFETIME,
        SOFT_LIMIT,
        SOFT_WINDOW,
        bounce_digest,
        digest,
        note_complaint,
        note_delivery,
        note_hard,
        note_soft,
        purge,
    )
else:
    __getattr__ = on_first_use(
        __name__,
        listing="Entry Reason delete find page put",
        noting=(
            "HARD_LIFETIME SOFT_LIFETIME SOFT_LIMIT SOFT_WINDOW"
            " bounce_digest digest note_complaint note_delivery note_hard note_soft purge"
        ),
    )
